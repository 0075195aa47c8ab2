import { describe, expect, it } from 'vitest';

import { FailureError } from '../../../src/contract/failure.ts';
import { formatRate, formatSize, parseSize } from '../../../src/cli/sizes.ts';

describe('reading sizes', () => {
  it.each([
    ['0', 0],
    ['1024', 1024],
    ['17B', 17],
    ['192GiB', 192 * 1024 ** 3],
    ['1.5TB', 1_500_000_000_000],
    ['128 KiB', 131_072],
    ['8mib', 8 * 1024 ** 2],
    ['0.1GiB', 107_374_182],
    ['2.25kB', 2250],
    ['1PiB', 1024 ** 5],
    [' 5GB ', 5_000_000_000],
  ])('%s is %i bytes', (text, bytes) => {
    expect(parseSize(text, '--size')).toBe(bytes);
  });

  it.each([
    '',
    ' ',
    'GiB',
    '-1',
    '-1GiB',
    '1e9',
    '1,5GB',
    '.5GB',
    '5.GiB',
    '5 G i B',
    'five',
    '1GiBs',
    '0x10',
    'NaN',
    '1EB',
  ])('refuses %j and says how to write one', (text) => {
    expect(refusal(text)).toMatch(
      /^--size: .* is not a size: write it as 192GiB, 1.5TB or a number of bytes$/,
    );
  });

  it.each(['5G', '5g', '2T', '7k'])(
    'asks which unit %s means, because the difference is gigabytes',
    (text) => {
      const letter = text.slice(1).toUpperCase();
      expect(refusal(text)).toContain(`write ${letter}iB (1024s) or ${letter}B (thousands)`);
    },
  );

  it('refuses more than can be counted exactly', () => {
    expect(refusal('9007199254740992')).toContain('more than any disk holds');
    expect(parseSize('9007199254740991', '--size')).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe('writing sizes', () => {
  it.each([
    [0, '0.0 GiB'],
    [1, '1 B'],
    [1536, '1.5 KiB'],
    [48_510_271, '46.3 MiB'],
    [107_374_182, '102.4 MiB'],
    [107_374_183, '0.1 GiB'],
    [1024 ** 3, '1.0 GiB'],
    [1.25 * 1024 ** 3, '1.3 GiB'],
    [1500 * 1024 ** 3, '1500.0 GiB'],
  ])('%i bytes are %s', (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });

  it('writes rates per second', () => {
    expect(formatRate(1.5 * 1024 ** 3)).toBe('1.5 GiB/s');
  });
});

function refusal(text: string): string {
  try {
    parseSize(text, '--size');
  } catch (error) {
    if (error instanceof FailureError && error.failure.code === 'invalid_config') return error.message;
    throw error;
  }
  throw new Error(`${text} was accepted`);
}
