/**
 * bfloat16 by definition: of the two neighbours of a value the nearer one, of equally near ones the even one.
 * Arithmetic on values, where the addon works on bits.
 */
export function bfloat16OfFloat32(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return sign | 0x7f80;
  // Where a bfloat16 with this pattern lies; the one after the largest stands for the rounding bound, 2^128.
  const at = (pattern: number): number => {
    const exponent = pattern >> 7;
    const fraction = (pattern & 0x7f) / 128;
    return exponent === 0 ? fraction * 2 ** -126 : (1 + fraction) * 2 ** (exponent - 127);
  };
  let low = 0;
  let high = 0x7f80;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (at(middle) <= magnitude) low = middle;
    else high = middle;
  }
  const below = magnitude - at(low);
  const above = at(high) - magnitude;
  const nearest = below < above ? low : above < below ? high : low % 2 === 0 ? low : high;
  return sign | nearest;
}

/** IEEE 754 binary16 by definition. */
export function float32OfHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
