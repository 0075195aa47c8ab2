import { describe, expect, test } from 'vitest';

import { native } from '../../../native/index.ts';
import { seededRandom } from './support.ts';

const bitsOf = new DataView(new ArrayBuffer(8));

function float32FromBits(bits: number): number {
  bitsOf.setUint32(0, bits);
  return bitsOf.getFloat32(0);
}

function halfFromBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The definition, in real numbers: the neighbour that is nearer, of two equally near the one with an even last bit. */
function bfloat16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return sign | 0x7f80;
  let low = 0;
  let high = 0x7f80;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (float32FromBits(middle * 0x10000) <= magnitude) low = middle;
    else high = middle;
  }
  const below = float32FromBits(low * 0x10000);
  // Past the largest finite value rounding goes on as if the exponent did too.
  const above = high === 0x7f80 ? 2 ** 128 : float32FromBits(high * 0x10000);
  const toBelow = magnitude - below;
  const toAbove = above - magnitude;
  if (toBelow !== toAbove) return sign | (toBelow < toAbove ? low : high);
  return sign | (low % 2 === 0 ? low : high);
}

function castFloat32(bits: Uint32Array): Uint16Array {
  const cast = native.castToBfloat16(
    'f32-to-bf16',
    new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength),
  );
  return new Uint16Array(cast.buffer, cast.byteOffset, cast.byteLength / 2);
}

function expectFloat32(bits: Uint32Array): void {
  const expected = Uint16Array.from(bits, (each) => bfloat16Bits(float32FromBits(each)));
  expect(castFloat32(bits)).toEqual(expected);
}

test('all halves', () => {
  const halves = Uint16Array.from({ length: 0x10000 }, (_, i) => i);
  const cast = native.castToBfloat16('f16-to-bf16', new Uint8Array(halves.buffer));
  const expected = halves.map((bits) => bfloat16Bits(halfFromBits(bits)));
  expect(new Uint16Array(cast.buffer, cast.byteOffset, halves.length)).toEqual(expected);
});

describe('float32', () => {
  test('around every bfloat16, its ties and their neighbours', () => {
    const lowHalves = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
    const bits = new Uint32Array(0x10000 * lowHalves.length);
    for (let i = 0; i < bits.length; i++) {
      bits[i] = (i % 0x10000) * 0x10000 + (lowHalves[Math.floor(i / 0x10000)] ?? 0);
    }
    expectFloat32(bits);
  });

  test('a random sample', () => {
    expectFloat32(new Uint32Array(seededRandom('float32 sample').bytes(4 * 100_000).buffer));
  });

  test('what is easily got wrong', () => {
    const cases = [
      [0x00000000, 0x0000],
      [0x80000000, 0x8000],
      [0x00000001, 0x0000],
      [0x00008000, 0x0000],
      [0x00008001, 0x0001],
      [0x00018000, 0x0002],
      [0x807f8000, 0x8080],
      [0x3f808000, 0x3f80],
      [0x3f818000, 0x3f82],
      [0x7f7fffff, 0x7f80],
      [0x7f800000, 0x7f80],
      [0xff800000, 0xff80],
      [0x7f800001, 0x7fc0],
      [0x7fffffff, 0x7fc0],
      [0xffffffff, 0x7fc0],
    ];
    const cast = castFloat32(Uint32Array.from(cases, ([bits]) => bits ?? 0));
    expect([...cast]).toEqual(cases.map(([, expected]) => expected));
  });
});

test('any number of elements at any alignment', () => {
  const random = seededRandom('cast lengths');
  const memory = random.bytes(2048);
  for (let i = 0; i < 200; i++) {
    const from = random.below(16);
    const elements = random.below(120);
    const part = memory.subarray(from, from + 4 * elements);
    const bits = new Uint32Array(part.slice().buffer);
    const cast = native.castToBfloat16('f32-to-bf16', part);
    const expected = Uint16Array.from(bits, (each) => bfloat16Bits(float32FromBits(each)));
    expect(new Uint16Array(cast.slice().buffer)).toEqual(expected);
  }
});
