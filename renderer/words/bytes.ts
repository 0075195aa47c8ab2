/**
 * Sizes for people: GiB with one decimal. What is so small that this would say nothing (a test model, one
 * tensor) is told in MiB or KiB; the exact number is never further away than the pointer or the screen reader.
 */
const kib = 1024;
const mib = 1024 ** 2;
export const gib = 1024 ** 3;

export function sizeWords(bytes: number): string {
  if (bytes >= gib / 20) return `${(bytes / gib).toFixed(1)} GiB`;
  if (bytes >= mib / 10) return `${(bytes / mib).toFixed(1)} MiB`;
  if (bytes >= kib) return `${(bytes / kib).toFixed(1)} KiB`;
  return bytes === 1 ? '1 byte' : `${bytes} bytes`;
}

export function exactBytes(bytes: number): string {
  return bytes === 1 ? '1 byte' : `${grouped(bytes)} bytes`;
}

export function rateWords(bytesPerSecond: number): string {
  if (bytesPerSecond >= gib / 20) return `${(bytesPerSecond / gib).toFixed(2)} GiB/s`;
  return `${(bytesPerSecond / mib).toFixed(1)} MiB/s`;
}

const groups = new Intl.NumberFormat('en-US');

export function grouped(count: number): string {
  return groups.format(count);
}

/** `1 artifact`, `10,000 artifacts`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kib: kib,
  mib: mib,
  gib: gib,
  tib: 1024 ** 4,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
};

/** Bytes in `192 GiB`, `1.5TB` or a number of bytes; null where it is no size. Empty text is no limit. */
export function readSize(text: string): number | null {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  const factor = units[unit.toLowerCase()];
  if (number === undefined || factor === undefined) return null;
  const bytes = Math.floor(Number(number) * factor);
  return Number.isSafeInteger(bytes) ? bytes : null;
}
