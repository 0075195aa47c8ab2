import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { type FileRange, native, newProgress, type Progress } from '../../../native/index.ts';
import { expectCode, opened, seededRandom, temporaryFolder } from './support.ts';

const reference = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const text = (value: string) => new TextEncoder().encode(value);

const implementations = {
  sha256: (bytes: Uint8Array) => native.sha256(bytes),
  sha256Portable: (bytes: Uint8Array) => native.sha256Portable(bytes),
};

// FIPS 180-4 examples as NIST publishes them.
const vectors: [string, Uint8Array, string][] = [
  ['nothing', text(''), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ['abc', text('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
  [
    '448 bits',
    text('abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq'),
    '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
  ],
  [
    '896 bits',
    text(
      'abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn' +
        'hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu',
    ),
    'cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1',
  ],
  [
    'a million times a',
    new Uint8Array(1_000_000).fill(0x61),
    'cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0',
  ],
];

describe.each(Object.entries(implementations))('%s', (name, digest) => {
  test.each(vectors)('published vector: %s', (_, bytes, expected) => {
    expect(digest(bytes)).toBe(expected);
  });

  test('every length around the block and padding boundaries', () => {
    const bytes = new Uint8Array(300).map((_, i) => i);
    for (let length = 0; length <= bytes.length; length++) {
      const part = bytes.subarray(0, length);
      expect(digest(part)).toBe(reference(part));
    }
  });

  test('random lengths at random alignments', () => {
    const random = seededRandom(name);
    const bytes = random.bytes(100_000);
    for (let i = 0; i < 300; i++) {
      const from = random.below(64);
      const part = bytes.subarray(from, from + random.below(i % 10 === 0 ? 99_000 : 1000));
      expect(digest(part)).toBe(reference(part));
    }
  });
});

test('the implementations have known names', () => {
  expect(['sha-ni', 'portable']).toContain(native.sha256Implementation());
  expect(['avx512', 'avx2', 'sha-ni-pair', 'none']).toContain(native.sha256LaneImplementation());
});

describe.each([
  ['avx512', 16],
  ['avx2', 8],
] as const)('%s lanes', (kernel, lanes) => {
  const usable = native.sha256InLanes(kernel, [text('')]) !== null;

  test.runIf(usable)('published vectors, in every lane', () => {
    for (const [, bytes, expected] of vectors) {
      for (let count = 1; count <= lanes; count++) {
        const digests = native.sha256InLanes(kernel, new Array<Uint8Array>(count).fill(bytes));
        expect(digests).toEqual(new Array(count).fill(expected));
      }
    }
  });

  test.runIf(usable)('different messages of random lengths at random alignments', () => {
    const random = seededRandom(`${kernel} lanes`);
    const bytes = random.bytes(50_000);
    for (let round = 0; round < 200; round++) {
      const length = random.below(round % 10 === 0 ? 40_000 : 400);
      const messages = Array.from({ length: 1 + random.below(lanes) }, () => {
        const from = random.below(bytes.length - length);
        return bytes.subarray(from, from + length);
      });
      expect(native.sha256InLanes(kernel, messages)).toEqual(messages.map(reference));
    }
  });
});

describe('ranges of files', () => {
  const MIB = 1 << 20;
  const oneRange = async (fd: number, offset: number, length: number, progress?: Progress) =>
    (await native.sha256Ranges([{ fd, offset, length }], progress))[0];

  test('one range, of any length around the sizes of buffers', async () => {
    const random = seededRandom('sha256Ranges, one');
    const folder = temporaryFolder();
    const bytes = random.bytes(12 * MIB + 321);
    writeFileSync(folder.at('file'), bytes);
    const fd = opened(folder.at('file'));
    const lengths = [0, 1, 63, MIB - 1, MIB, MIB + 1, 9 * MIB, 11 * MIB + 17];
    for (const length of [...lengths, ...lengths.map(() => random.below(11 * MIB))]) {
      const offset = random.below(MIB);
      const progress = newProgress();
      const digest = await oneRange(fd, offset, length, progress);
      expect(digest).toBe(reference(bytes.subarray(offset, offset + length)));
      expect(progress[0]).toBe(BigInt(length));
    }
    expect(await oneRange(fd, bytes.length, 0)).toBe(reference(new Uint8Array()));
  });

  // Long ones, short ones, and as many as fill the lanes of every kernel and leave some over.
  test.each([
    [2, 3 * MIB],
    [3, 9 * MIB],
    [17, 300_000],
    [40, 200],
    [500, 20_000],
    [90, 700_000],
  ])('%d together, each of up to %d bytes', async (count, largest) => {
    const random = seededRandom(`sha256Ranges ${count}`);
    const folder = temporaryFolder();
    const contents = [0, 1, 2].map((at) => random.bytes(largest + at));
    const fds = contents.map((bytes, at) => {
      writeFileSync(folder.at(`file${at}`), bytes);
      return opened(folder.at(`file${at}`));
    });
    const ranges: FileRange[] = [];
    const expected: string[] = [];
    for (let at = 0; at < count; at++) {
      const which = random.below(3);
      const length = at % 7 === 0 ? random.below(130) : random.below(largest);
      const offset = random.below(largest - length);
      ranges.push({ fd: fds[which] ?? -1, offset, length });
      expected.push(reference((contents[which] as Uint8Array).subarray(offset, offset + length)));
    }
    const progress = newProgress();
    const digests = await Promise.all([native.sha256Ranges(ranges, progress), native.sha256Ranges(ranges)]);
    expect(digests).toEqual([expected, expected]);
    expect(progress[0]).toBe(BigInt(ranges.reduce((sum, { length }) => sum + length, 0)));
  });

  test('none, and empty ones', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), 'x');
    const fd = opened(folder.at('file'));
    expect(await native.sha256Ranges([])).toEqual([]);
    const empty = { fd, offset: 1, length: 0 };
    const nothing = reference(new Uint8Array());
    expect(await native.sha256Ranges([empty, empty, empty])).toEqual([nothing, nothing, nothing]);
  });

  test('a failure names its range', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), new Uint8Array(2 * MIB));
    const fd = opened(folder.at('file'));
    const ranges = Array.from({ length: 30 }, (_, at) => ({ fd, offset: at, length: 1000 * at }));
    ranges[19] = { fd, offset: 2 * MIB - 5, length: 6 };
    await expect(native.sha256Ranges(ranges)).rejects.toMatchObject({ code: 'EIO', item: 19 });
    ranges[19] = { fd: folder.fd, offset: 0, length: 6 };
    await expect(native.sha256Ranges(ranges)).rejects.toMatchObject({ code: 'EISDIR', item: 19 });
  });

  test('a file that ends early', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), new Uint8Array(2 * MIB));
    const fd = opened(folder.at('file'));
    await expectCode(() => oneRange(fd, 0, 2 * MIB + 1), 'EIO');
    await expectCode(() => oneRange(fd, 2 * MIB, 1), 'EIO');
    await expectCode(() => oneRange(fd, 5 * MIB, 9 * MIB), 'EIO');
  });

  test('canceled before and while it runs', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), new Uint8Array(0));
    const fd = opened(folder.at('file'), 2);
    native.ftruncate(fd, 2 ** 40);
    const before = newProgress();
    Atomics.store(before, 1, 1n);
    await expectCode(() => oneRange(fd, 0, 2 ** 40, before), 'ECANCELED');
    expect(before[0]).toBe(0n);

    const during = newProgress();
    const digest = oneRange(fd, 0, 2 ** 40, during);
    const canceled = expectCode(() => digest, 'ECANCELED');
    while (Atomics.load(during, 0) === 0n) await new Promise((resolve) => setImmediate(resolve));
    Atomics.store(during, 1, 1n);
    await canceled;
  });
});
