/**
 * Sizes as people write and read them. Reading is exact: `1.5TB` is 1,500,000,000,000 bytes. A unit must say
 * whether it counts in thousands or in 1024s, because for a store's limit the difference is gigabytes.
 */
import { formatBytes } from '../contract/bytes.ts';
import { wrongUse } from './wrong-use.ts';

const steps = ['k', 'm', 'g', 't', 'p'];
const sizePattern = /^(\d+)(?:\.(\d+))?\s*([a-z]*)$/i;

/** Bytes, or throws FailureError (wrong use) naming `what`. A fraction of a byte is dropped. */
export function parseSize(text: string, what: string): number {
  const [, whole, fraction = '', unit = ''] = sizePattern.exec(text.trim()) ?? [];
  const factor = factorOf(unit.toLowerCase());
  if (whole === undefined || factor === undefined) throw wrongUse(`${what}: ${explain(text, unit)}`);
  const bytes = (BigInt(whole + fraction) * factor) / 10n ** BigInt(fraction.length);
  if (bytes > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw wrongUse(`${what}: ${JSON.stringify(text)} is more than any disk holds`);
  }
  return Number(bytes);
}

function factorOf(unit: string): bigint | undefined {
  if (unit === '' || unit === 'b') return 1n;
  const power = BigInt(steps.indexOf(unit[0] as string) + 1);
  if (power === 0n) return undefined;
  if (unit.slice(1) === 'ib') return 1024n ** power;
  return unit.slice(1) === 'b' ? 1000n ** power : undefined;
}

function explain(text: string, unit: string): string {
  const letter = unit.toUpperCase();
  if (letter.length === 1 && steps.includes(letter.toLowerCase())) {
    return `${JSON.stringify(text)} does not say which ${letter}: write ${letter}iB (1024s) or ${letter}B (thousands)`;
  }
  return `${JSON.stringify(text)} is not a size: write it as 192GiB, 1.5TB or a number of bytes`;
}

export function formatRate(bytesPerSecond: number): string {
  return `${formatBytes(bytesPerSecond)}/s`;
}

export { formatBytes as formatSize };
