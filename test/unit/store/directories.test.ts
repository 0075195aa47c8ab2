import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFolders } from '../../../src/store/directories.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

test('makes a folder and what is missing above it, and takes what is there', () => {
  const folder = join(temporaryFolder(), 'a', 'b', 'c');
  makeFolders(folder, 0o700);
  makeFolders(folder, 0o700);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
});

test('ends where a file system answers ENOENT below a folder that is there', () => {
  expect(() => makeFolders('/proc/nowhere/below')).toThrow(/ENOENT/);
  expect(existsSync('/proc/nowhere')).toBe(false);
});
