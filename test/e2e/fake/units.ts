/** Sizes, times and keys as the made-up data has them. */
import { createHash } from 'node:crypto';

export const gib = 1024 ** 3;
export const minute = 60_000;

export function keyOf(seed: string): string {
  return createHash('sha256').update(seed).digest('hex');
}
