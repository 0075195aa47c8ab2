import { constants, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { type Cast, isSystemError, native, newProgress, type Segment } from '../../../native/index.ts';
import { expectCode, failureOf, opened, type Random, seededRandom, temporaryFolder } from './support.ts';

const MIB = 1 << 20;
const elementBytes: Record<Cast, number> = { none: 1, 'f16-to-bf16': 2, 'f32-to-bf16': 4 };
const casts: Cast[] = ['none', 'f16-to-bf16', 'f32-to-bf16'];

const target = (path: string) =>
  opened(path, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC, 0o600);

function castBytes(cast: Cast, bytes: Uint8Array): Uint8Array {
  return cast === 'none' ? bytes : native.castToBfloat16(cast, bytes);
}

/** One call to the writer, with the bytes that it must add. */
type Step = { expected: Uint8Array } & ({ bytes: Uint8Array } | { segments: Segment[] });

function randomStep(random: Random, source: Uint8Array, fd: number, largest: number): Step {
  if (random.below(3) === 0) {
    const bytes = random.bytes(random.below(largest));
    return { bytes, expected: bytes };
  }
  const segments = Array.from({ length: random.below(5) }, () => {
    const cast = casts[random.below(3)] ?? 'none';
    const length = random.below(largest / elementBytes[cast]) * elementBytes[cast];
    return { fd, offset: random.below(source.length - length), length, cast };
  });
  const parts = segments.map((s) => castBytes(s.cast, source.subarray(s.offset, s.offset + s.length)));
  return { segments, expected: Buffer.concat(parts) };
}

describe('against a plain reference', () => {
  test.each([
    ['small steps', 40, 2000],
    ['steps around a chunk', 6, 3 * MIB],
  ])('%s', async (label, rounds, largest) => {
    const random = seededRandom(`payload, ${label}`);
    const folder = temporaryFolder();
    const source = random.bytes(4 * MIB);
    writeFileSync(folder.at('source'), source);
    const sourceFd = opened(folder.at('source'));
    for (let round = 0; round < rounds; round++) {
      const steps = Array.from({ length: random.below(8) }, () =>
        randomStep(random, source, sourceFd, largest),
      );
      const body = Buffer.concat(steps.map((step) => step.expected));
      const prefix = random.bytes(random.below(200));

      const writer = native.payloadWriter(target(folder.at('target')), prefix, body.length);
      const progress = newProgress();
      // Not awaited one by one: the writer keeps the order.
      const calls = steps.map((step) =>
        'bytes' in step ? writer.write(step.bytes) : writer.copy(step.segments, progress),
      );
      await writer.finish();
      await Promise.all(calls);

      const whole = Buffer.concat([prefix, body]);
      expect(readFileSync(folder.at('target')).equals(whole)).toBe(true);
      const copied = steps.map((step) => ('segments' in step ? step.expected.length : 0));
      expect(progress[0]).toBe(BigInt(copied.reduce((sum, length) => sum + length, 0)));
    }
  });

  test('nothing at all', async () => {
    const folder = temporaryFolder();
    const writer = native.payloadWriter(target(folder.at('target')), new Uint8Array(), 0);
    await writer.finish();
    await writer.finish();
    expect(readFileSync(folder.at('target')).length).toBe(0);
  });

  test('the prefix is there at once', () => {
    const folder = temporaryFolder();
    native.payloadWriter(target(folder.at('target')), Buffer.from('prefix'), 5);
    expect(readFileSync(folder.at('target'), 'utf8')).toBe('prefix');
  });
});

describe('failures', () => {
  const setup = (tensorBytes: number) => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('source'), new Uint8Array(4 * MIB));
    const writer = native.payloadWriter(target(folder.at('target')), new Uint8Array(8), tensorBytes);
    const fd = opened(folder.at('source'));
    const copy = (length: number, offset = 0, cast: Cast = 'none') =>
      writer.copy([{ fd, offset, length, cast }]);
    return { folder, writer, fd, copy };
  };

  test('more than was declared', async () => {
    const { writer, copy } = setup(20);
    await copy(19);
    await expectCode(() => writer.write(new Uint8Array(2)), 'EFBIG');
    const first = setup(3);
    await expectCode(() => first.copy(4 * MIB), 'EFBIG');
  });

  test.each([100, 5 * MIB])('a source that is short of %d bytes', async (length) => {
    const { copy } = setup(length);
    await expectCode(() => copy(length, 4 * MIB - 50), 'EIO');
  });

  test('bytes that are missing at the end', async () => {
    const { writer, copy } = setup(20);
    await copy(19);
    await expectCode(() => writer.finish(), 'EIO');
  });

  test('after a failure everything fails in the same way', async () => {
    const { writer, copy } = setup(10);
    const first = await failureOf(() => copy(11));
    for (const call of [() => copy(1), () => writer.write(new Uint8Array(0)), () => writer.finish()]) {
      const again = await failureOf(call);
      expect(isSystemError(again) && isSystemError(first) && again.message).toBe((first as Error).message);
    }
  });

  test('a wrong argument is no failure of the writer', async () => {
    const { writer, fd, copy } = setup(8);
    const wrong = { fd, offset: 0, length: 6, cast: 'f32-to-bf16' } as const;
    expect(() => writer.copy([wrong])).toThrow(RangeError);
    expect(() => writer.copy([{ ...wrong, cast: 'f8' as Cast }])).toThrow(TypeError);
    await copy(16, 0, 'f32-to-bf16');
    await writer.finish();
  });

  test('a target or a source that does not take part', async () => {
    const { folder, writer, fd } = setup(10);
    const readOnly = opened(folder.at('source'));
    expect(() => native.payloadWriter(readOnly, new Uint8Array(8), 1)).toThrow(/^EBADF: .*, pwrite$/);
    const directory = folder.fd;
    await expectCode(() => writer.copy([{ fd: directory, offset: 0, length: 1, cast: 'none' }]), 'EISDIR');
    expect(native.fstat(fd).sizeBytes).toBe(4 * MIB);
  });

  test('canceled before and while it runs', async () => {
    const before = setup(4 * MIB);
    const progress = newProgress();
    Atomics.store(progress, 1, 1n);
    const segment = { fd: before.fd, offset: 0, length: 4 * MIB, cast: 'none' } as const;
    await expectCode(() => before.writer.copy([segment], progress), 'ECANCELED');
    expect(progress[0]).toBe(0n);

    const segments = Array.from({ length: 16 }, () => segment);
    const during = setup(64 * MIB);
    const shared = newProgress();
    const copied = during.writer.copy(
      segments.map((each) => ({ ...each, fd: during.fd })),
      shared,
    );
    const outcome = copied.then(
      () => 'done',
      (error: unknown) => (isSystemError(error) ? error.code : error),
    );
    while (Atomics.load(shared, 0) === 0n) await new Promise((resolve) => setImmediate(resolve));
    Atomics.store(shared, 1, 1n);
    // A machine that is fast, or that paused here, may have finished before it could see the request.
    expect(await outcome).toBe(shared[0] === BigInt(64 * MIB) ? 'done' : 'ECANCELED');
  });

  test('an object that did not come from payloadWriter', () => {
    const { writer } = setup(1);
    const Class = writer.constructor as new () => typeof writer;
    expect(() => new Class().finish()).toThrow(TypeError);
    expect(() => writer.finish.call({} as typeof writer)).toThrow(TypeError);
  });
});
