/** The payload format, strictly: cases P1, P4 and P5 of the field reports among others. */
import { openSync, writeFileSync, closeSync, ftruncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { dtypes, contiguousStride } from '../../../src/store/dtypes.ts';
import {
  encodeHeader,
  maxHeaderBytes,
  parseHeader,
  PayloadError,
  readHeader,
} from '../../../src/store/safetensors.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

const parse = (text: string, dataBytes: number) => parseHeader(Buffer.from(text), dataBytes);
const tensor = (dtype: string, shape: number[], start: number, end: number): object => ({
  dtype,
  shape,
  data_offsets: [start, end],
});
const header = (tensors: Record<string, object>): string => JSON.stringify(tensors);

function fileOf(bytes: Uint8Array, sizeBytes = bytes.length): number {
  const path = join(temporaryFolder(), 'x.safetensors');
  writeFileSync(path, bytes);
  const fd = openSync(path, 'r+');
  ftruncateSync(fd, sizeBytes);
  onTestFinished(() => closeSync(fd));
  return fd;
}

function withLength(length: bigint, rest: string): Buffer {
  const field = Buffer.alloc(8);
  field.writeBigUInt64LE(length);
  return Buffer.concat([field, Buffer.from(rest)]);
}

describe('what is read', () => {
  test('tensors in the order of their bytes, with metadata', () => {
    const text = header({
      b: tensor('BF16', [2, 3], 8, 20),
      __metadata__: { format: 'pt', é: '"' },
      a: tensor('F32', [2], 0, 8),
    });
    const { tensors, metadata, dataOffset } = parse(`${text}   `, 20);
    expect(tensors).toEqual([
      { name: 'a', dtype: 'F32', shape: [2], start: 0, end: 8 },
      { name: 'b', dtype: 'BF16', shape: [2, 3], start: 8, end: 20 },
    ]);
    expect([...metadata]).toEqual([
      ['format', 'pt'],
      ['é', '"'],
    ]);
    expect(dataOffset).toBe(8 + Buffer.byteLength(text) + 3);
  });

  test('P5: a tensor of odd size that leaves the next one unaligned', () => {
    const text = header({ a: tensor('U8', [3], 0, 3), b: tensor('F32', [1], 3, 7) });
    expect(parse(text, 7).tensors.map(({ start }) => start)).toEqual([0, 3]);
  });

  test('empty tensors and scalars, wherever they stand', () => {
    const text = header({
      z: tensor('F32', [0, 7], 0, 0),
      a: tensor('F64', [], 0, 8),
      m: tensor('F32', [3, 0], 8, 8),
    });
    expect(parse(text, 8).tensors.map(({ name }) => name)).toEqual(['z', 'a', 'm']);
    expect(parse('{}', 0).tensors).toEqual([]);
  });

  test('every dtype that artifacts hold', () => {
    for (const { safetensors, bytes } of dtypes) {
      expect(parse(header({ t: tensor(safetensors, [3], 0, 3 * bytes) }), 3 * bytes).tensors).toHaveLength(1);
    }
  });

  test('names that need care', () => {
    const names = ['__proto__', 'a"b', 'zwölf', '\u{1f600}', 'constructor', ' '];
    const all = Object.fromEntries(names.map((name, index) => [name, tensor('U8', [1], index, index + 1)]));
    Object.defineProperty(all, '__proto__', { value: tensor('U8', [1], 0, 1), enumerable: true });
    expect(parse(header(all), names.length).tensors.map(({ name }) => name)).toEqual(names);
  });
});

const t = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}';

describe('what is refused', () => {
  test.each([
    ['P1: a name twice', `{"a":${t},"a":${t}}`, 2, '"a" twice'],
    ['P1: a name twice, once escaped', `{"a":${t},"\\u0061":${t}}`, 2, '"a" twice'],
    ['P1: metadata twice', `{"__metadata__":{},"__metadata__":{},"a":${t}}`, 2, '"__metadata__" twice'],
    ['P1: a metadata key twice', `{"__metadata__":{"x":"1","x":"2"},"a":${t}}`, 2, '"x" twice'],
    ['P1: a field twice', '{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}', 2, '"dtype"'],
    ['P4: trailing bytes', `{"a":${t}}`, 5, '3 bytes after data offset 2'],
    ['P4: data and no tensor', '{}', 1, '1 bytes after data offset 0'],
    ['P4: a gap at the start', header({ a: tensor('U8', [1], 1, 2) }), 2, 'data offset 1'],
    ['P4: a gap', header({ a: tensor('U8', [1], 0, 1), b: tensor('U8', [1], 2, 3) }), 3, 'data offset 2'],
    [
      'P4: an overlap',
      header({ a: tensor('U8', [2], 0, 2), b: tensor('U8', [2], 1, 3) }),
      3,
      'data offset 1',
    ],
    [
      'P4: the same range twice',
      header({ a: tensor('U8', [2], 0, 2), b: tensor('U8', [2], 0, 2) }),
      2,
      'data offset 0',
    ],
    ['P4: an end past the file', header({ a: tensor('U8', [9], 0, 9) }), 8, 'past the end'],
    ['an end before its start', header({ a: tensor('U8', [0], 2, 1) }), 2, 'before its start'],
    [
      'a size that is not the shape',
      header({ a: tensor('F32', [2], 0, 4) }),
      4,
      '8 bytes, but its range holds 4',
    ],
    [
      'a shape whose product overflows',
      header({ a: tensor('U8', [2 ** 40, 2 ** 40], 0, 0) }),
      0,
      'past what can be counted',
    ],
    ['an unknown dtype', header({ a: tensor('F31', [1], 0, 4) }), 4, '"F31"'],
    ['a torch dtype', header({ a: tensor('torch.float32', [1], 0, 4) }), 4, '"torch.float32"'],
    ['a missing field', '{"a":{"dtype":"U8","shape":[2]}}', 2, 'needs dtype, shape'],
    ['an unknown field', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"x":1}}', 2, '"x"'],
    ['three offsets', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1,2]}}', 2, 'data_offsets'],
    ['one offset', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0]}}', 2, 'data_offsets'],
    ['a negative offset', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[-2,0]}}', 2, 'not negative'],
    ['a float', '{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}', 2, 'expected'],
    ['an exponent', '{"a":{"dtype":"U8","shape":[2e0],"data_offsets":[0,2]}}', 2, 'expected'],
    ['a leading zero', '{"a":{"dtype":"U8","shape":[02],"data_offsets":[0,2]}}', 2, 'integer'],
    [
      'a huge offset',
      '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,99999999999999999999]}}',
      2,
      'larger',
    ],
    ['a list for a tensor', '{"a":[1]}', 2, 'expected {'],
    ['metadata that is not text', `{"__metadata__":{"x":1},"a":${t}}`, 2, 'expected "'],
    ['a trailing comma', `{"a":${t},}`, 2, 'expected "'],
    ['text after the header', `{"a":${t}}x`, 2, 'more text'],
    ['a NUL after the header', `{"a":${t}}\0`, 2, 'more text'],
    ['a leading blank', ` {"a":${t}}`, 2, 'must begin with {'],
    ['nothing', '', 0, 'must begin with {'],
    ['an open string', '{"a', 0, 'no end'],
    ['half of a surrogate pair', `{"\\ud800":${t}}`, 2, 'surrogate'],
    ['an unknown escape', '{"\\x":1}', 0, 'unknown escape'],
    ['a control character', '{"a\n":1}', 0, 'control character'],
  ])('%s', (_, text, dataBytes, words) => {
    expect(() => parse(text, dataBytes)).toThrow(PayloadError);
    expect(() => parse(text, dataBytes)).toThrow(words);
  });

  test('a name that is not UTF-8', () => {
    const bytes = Buffer.concat([Buffer.from('{"'), Buffer.from([0xff]), Buffer.from(`":${t}}`)]);
    expect(() => parseHeader(bytes, 2)).toThrow('not UTF-8');
  });

  test.each([
    ['a file shorter than the length field', Buffer.from([1, 2, 3]), 3, 'too few'],
    ['a length past the end of the file', withLength(100n, '{}'), 10, 'has only 10'],
    ['P3: a length above the bound of the format', withLength(100_000_001n, '{}'), 10, '100000000'],
    ['a length that is no number', withLength(2n ** 64n - 1n, '{}'), 10, '18446744073709551615'],
    [
      'P2: text where a header should be',
      Buffer.from('version https://git-lfs.github.com/spec/v1\n'),
      43,
      'no safetensors file',
    ],
  ])('%s', async (_, bytes, size, words) => {
    await expect(readHeader(fileOf(bytes, size), size)).rejects.toThrow(PayloadError);
    await expect(readHeader(fileOf(bytes, size), size)).rejects.toThrow(words);
  });

  test('P3: the largest header of the format is read, in bounded memory', async () => {
    const text = `{"a":${t}}`;
    const size = 8 + maxHeaderBytes + 2;
    const bytes = Buffer.alloc(8 + maxHeaderBytes, ' ');
    bytes.writeBigUInt64LE(BigInt(maxHeaderBytes));
    bytes.write(text, 8);
    const { tensors, dataOffset } = await readHeader(fileOf(bytes, size), size);
    expect(tensors).toHaveLength(1);
    expect(dataOffset).toBe(8 + maxHeaderBytes);
  });
});

describe('what is written', () => {
  test('is byte for byte what the Python writer puts there', () => {
    const bytes = encodeHeader([
      { name: 'b', dtype: 'BF16', shape: [2, 3], nbytes: 12 },
      { name: 'Z', dtype: 'U8', shape: [3], nbytes: 3 },
      { name: 'é', dtype: 'F32', shape: [], nbytes: 4 },
    ]);
    const json =
      '{"Z":{"data_offsets":[0,3],"dtype":"U8","shape":[3]},"__metadata__":{"format":"pt","host_weight_runtime":"1"},"b":{"data_offsets":[3,15],"dtype":"BF16","shape":[2,3]},"\\u00e9":{"data_offsets":[15,19],"dtype":"F32","shape":[]}}';
    const padded = Math.ceil(json.length / 8) * 8;
    expect(bytes.readBigUInt64LE()).toBe(BigInt(padded));
    expect(bytes.subarray(8).toString()).toBe(json.padEnd(padded, ' '));
    expect(parseHeader(bytes.subarray(8), 19).tensors.map(({ name }) => name)).toEqual(['Z', 'b', 'é']);
  });

  test('is not padded where it fits', () => {
    for (let length = 1; length < 12; length += 1) {
      const bytes = encodeHeader([{ name: 'x'.repeat(length), dtype: 'U8', shape: [1], nbytes: 1 }]);
      const text = bytes.subarray(8).toString();
      expect(bytes.length % 8).toBe(0);
      expect(text.length - text.trimEnd().length).toBeLessThan(8);
    }
  });

  test.each([
    [[], []],
    [[5], [1]],
    [
      [2, 3, 4],
      [12, 4, 1],
    ],
    [
      [2, 0, 4],
      [4, 4, 1],
    ],
    [[0], [1]],
    [
      [1, 1],
      [1, 1],
    ],
  ])('the strides of a contiguous %j are %j', (shape, stride) => {
    expect(contiguousStride(shape)).toEqual(stride);
  });
});
