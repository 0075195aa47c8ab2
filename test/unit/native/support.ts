/** What the tests of the addon share: a folder that goes away, numbers that can be drawn again, error checks. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';

import { isSystemError, native } from '../../../native/index.ts';

export interface Folder {
  readonly path: string;
  readonly fd: number;
  at(...names: string[]): string;
}

/** A temporary folder, opened, for the running test. */
export function temporaryFolder(): Folder {
  const path = mkdtempSync(join(tmpdir(), 'weightroom-native-'));
  const fd = native.open(path, 0);
  onTestFinished(async () => {
    native.close(fd);
    await rm(path, { recursive: true, force: true });
  });
  return { path, fd, at: (...names) => join(path, ...names) };
}

/** Opens for the running test. */
export function opened(path: string, flags = 0, mode?: number): number {
  const fd = native.open(path, flags, mode);
  onTestFinished(() => native.close(fd));
  return fd;
}

export interface Random {
  /** From 0 up to, and without, `limit`. */
  below(limit: number): number;
  bytes(length: number): Uint8Array<ArrayBuffer>;
}

/** xorshift32 from WEIGHTROOM_SEED or a new seed, which is printed. */
export function seededRandom(label: string): Random {
  const given = process.env['WEIGHTROOM_SEED'];
  const seed = given === undefined ? 1 + Math.floor(Math.random() * 0x7ffffffe) : Number(given);
  if (!Number.isInteger(seed) || seed <= 0) throw new Error('WEIGHTROOM_SEED must be a positive integer');
  console.log(`${label}: WEIGHTROOM_SEED=${seed}`);
  let state = seed | 0 || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  return {
    below: (limit) => Math.floor((next() / 2 ** 32) * limit),
    bytes: (length) => {
      const words = new Uint32Array(Math.ceil(length / 4));
      for (let i = 0; i < words.length; i++) words[i] = next();
      return new Uint8Array(words.buffer, 0, length);
    },
  };
}

/** What a call throws or rejects with. */
export async function failureOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error('the call succeeded');
}

export async function expectCode(call: () => unknown, code: string): Promise<void> {
  const error = await failureOf(call);
  expect(isSystemError(error) ? error.code : error).toBe(code);
}
