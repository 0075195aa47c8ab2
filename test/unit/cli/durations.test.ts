import { describe, expect, it } from 'vitest';

import { parseAge } from '../../../src/cli/durations.ts';
import { FailureError } from '../../../src/contract/failure.ts';

describe('an age', () => {
  it.each([
    ['12h', 12 * 3600_000],
    ['30d', 30 * 24 * 3600_000],
    ['8w', 56 * 24 * 3600_000],
    ['0d', 0],
  ])('%s', (text, milliseconds) => {
    expect(parseAge(text, '--older-than')).toBe(milliseconds);
  });

  it.each(['30', 'd', '30 d', '-1d', '1.5d', '30D', '30m', '9999999d', ''])('not %j', (text) => {
    expect(() => parseAge(text, '--older-than')).toThrow(FailureError);
  });
});
