import { expect, test } from 'vitest';
import { FailureError } from '../../../src/contract/failure.ts';
import { resolveRoot } from '../../../src/store/domain.ts';

test.each([
  ['', /must not be empty/],
  ['a\0b', /must not be empty/],
  ['~somebody/store', /only your own home directory/],
  ['/tmp/x\ufffd', /is not UTF-8/],
])('%j is refused', (path, words) => {
  expect(() => resolveRoot(path)).toThrow(FailureError);
  expect(() => resolveRoot(path)).toThrow(words);
});
