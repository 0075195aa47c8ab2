/** What other readers refuse in a header must not become an artifact of ours. */
import { expect, test } from 'vitest';
import { parseHeader, PayloadError } from '../../../src/store/safetensors.ts';

const header = (name: string, shape: string, end: number): Buffer =>
  Buffer.from(`{"${name}":{"dtype":"F32","shape":${shape},"data_offsets":[0,${end}]}}`);

test.each([
  ['[1099511627776,1099511627776,0]', 'sizes that overflow before the 0'],
  ['[0,1099511627776,1099511627776]', 'strides that overflow behind the 0'],
  [`[${Array(31).fill('4503599627370496').join()}]`, 'sizes that overflow'],
])('%s is refused: %s', (shape) => {
  expect(() => parseHeader(header('a', shape, 0), 0)).toThrow(/multiply past what can be counted/);
});

test.each(['\\ud800', 'a\\udc00', '\\ude00\\ud83d'])('the name %s is no text', (name) => {
  expect(() => parseHeader(header(name, '[2]', 8), 8)).toThrow(PayloadError);
  expect(() => parseHeader(header(name, '[2]', 8), 8)).toThrow(/half of a surrogate pair/);
});

test('an escaped pair is text, and an ordinary empty tensor is a tensor', () => {
  expect(parseHeader(header('\\ud83d\\ude00', '[2]', 8), 8).tensors[0]?.name).toBe('\u{1f600}');
  expect(parseHeader(header('a', '[0,5]', 0), 0).tensors[0]?.shape).toEqual([0, 5]);
});
