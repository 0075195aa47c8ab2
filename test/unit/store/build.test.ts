/** get-or-build in one process: what is published, what is refused, and that a failure leaves nothing. */
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { failure, FailureError } from '../../../src/contract/failure.ts';
import { getOrBuild, type BuildOptions, type StoreResult } from '../../../src/store/build.ts';
import { dtypeOfTorch, type Dtype } from '../../../src/store/dtypes.ts';
import { deadlineIn } from '../../../src/store/clock.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import type { ArtifactWriter, ProductionMetadata, WeightProducer } from '../../../src/store/producer.ts';
import {
  bodyOf,
  closed,
  copyFolder,
  identityOf,
  KiB,
  metadataOfTests,
  producerOf,
  store,
  syntheticProducer,
  tensorSpec,
  type Scenario,
} from '../../fixtures/store.ts';

const content = { bytes: 4 * KiB, seed: 5 };
const identity = identityOf('a');
const bfloat16 = dtypeOfTorch('torch.bfloat16') as Dtype;

type Produce = (writer: ArtifactWriter, signal: AbortSignal) => Promise<ProductionMetadata>;

async function build(
  { domain }: Scenario,
  produce: Produce | WeightProducer,
  options: Partial<BuildOptions> = {},
): Promise<StoreResult> {
  const producer = typeof produce === 'function' ? producerOf(identity, produce) : produce;
  return closed(await getOrBuild(domain, identity, producer, { deadline: null, ...options }));
}

/** One payload with these tensors, one byte each. */
async function write(writer: ArtifactWriter, file: string, names: readonly string[]): Promise<void> {
  const payload = await writer.openPayload(
    file,
    names.map((name) => tensorSpec(name, [1])),
  );
  for (const { name } of payload.specs) await payload.write(name, Buffer.from([1]));
  await payload.close();
}

async function expectNothingLeft(scenario: Scenario): Promise<void> {
  expect(await scenario.entries()).toEqual([]);
  expect(await scenario.heldLocks()).toEqual([]);
  expect(await scenario.buildStatus('a', content)).toBe('built');
}

test('what is published is what the specification lays out', async () => {
  const scenario = await store().made();
  const phases: string[] = [];
  const result = await build(
    scenario,
    async (writer) => {
      // In no order: the writer sorts tensors, files and header.
      const second = await writer.openPayload('b.safetensors', [
        { ...tensorSpec('z', [2, 2], bfloat16), kind: 'buffer', role: 'scale' },
        tensorSpec('\u{10000}', [3]),
        tensorSpec('\uffff', []),
      ]);
      await second.write('z', Buffer.alloc(8, 7));
      await second.write('\uffff', Buffer.alloc(1, 8));
      await second.write('\u{10000}', Buffer.alloc(1, 9));
      await second.write('\u{10000}', Buffer.alloc(2, 9));
      await second.close();
      await write(writer, 'a.safetensors', ['a']);
      return metadataOfTests;
    },
    { onPhase: (phase) => void phases.push(phase) },
  );
  expect(result.status).toBe('built');
  expect(phases).toEqual([
    'looking-up',
    'waiting-for-build-lock',
    'preparing',
    'producing',
    'hashing',
    'syncing',
    'publishing',
  ]);
  const entry = scenario.artifactPath('a');
  expect(readdirSync(entry).sort()).toEqual([
    'READY.json',
    'a.safetensors',
    'b.safetensors',
    'manifest.json',
  ]);
  const manifest = JSON.parse(readFileSync(join(entry, 'manifest.json'), 'utf8')) as {
    tensors: { name: string; stride: number[]; nbytes: number; sha256: string; file_name: string }[];
    files: { file_name: string; size: number; sha256: string }[];
    artifact_content_sha256: string;
  };
  expect(manifest.tensors.map(({ name }) => name)).toEqual(['a', 'z', '\uffff', '\u{10000}']);
  expect(manifest.tensors[1]).toEqual({
    name: 'z',
    kind: 'buffer',
    role: 'scale',
    file_name: 'b.safetensors',
    storage_key: 'z',
    shape: [2, 2],
    dtype: 'torch.bfloat16',
    stride: [2, 1],
    nbytes: 8,
    sha256: createHash('sha256').update(Buffer.alloc(8, 7)).digest('hex'),
  });
  for (const { file_name, size, sha256 } of manifest.files) {
    const bytes = readFileSync(join(entry, file_name));
    expect([bytes.length, createHash('sha256').update(bytes).digest('hex')]).toEqual([size, sha256]);
  }
  const marker = JSON.parse(readFileSync(join(entry, 'READY.json'), 'utf8')) as object;
  expect(marker).toEqual({
    schema_version: 1,
    publication_id: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
    manifest_sha256: createHash('sha256')
      .update(readFileSync(join(entry, 'manifest.json')))
      .digest('hex'),
    artifact_content_sha256: manifest.artifact_content_sha256,
    integrity_mode: 'full_checksum',
  });
  expect((await scenario.lookup('a', 'full_checksum')).status).toBe('hit');
});

describe('a producer', () => {
  test.each(['group_cohort', 'artifact_bundle'] as const)(
    'that coordinates as %s is refused',
    async (scope) => {
      const scenario = await store().made();
      const producer = { ...syntheticProducer(identity, content), coordinationScope: scope };
      expect(await build(scenario, producer)).toMatchObject({
        status: 'failed',
        failure: { stage: 'production', code: 'producer_unsupported', retryable: false },
      });
      expect(scenario.names('locks')).toEqual(['domain-init.lock']);
    },
  );

  test.each([[[]], [[identityOf('b')]], [[identity, identityOf('b')]]])(
    'that does not declare exactly this identity is refused: %#',
    async (outputs) => {
      const scenario = await store().made();
      expect(await build(scenario, { ...syntheticProducer(identity, content), outputs })).toMatchObject({
        status: 'failed',
        failure: { stage: 'production', code: 'producer_unavailable' },
      });
    },
  );

  const broken = (errno: string): Error =>
    Object.assign(new Error(`${errno}: something`), { code: errno, errno: 5, syscall: 'read' });

  test.each<[string, Error, object]>([
    [
      'an exception',
      new Error('the checkpoint is unreadable'),
      { stage: 'production', code: 'producer_failed', retryable: false },
    ],
    ['an I/O error', broken('EIO'), { stage: 'production', code: 'producer_failed', retryable: false }],
    ['no space', broken('ENOSPC'), { stage: 'capacity', code: 'enospc', retryable: true }],
    ['a used-up quota', broken('EDQUOT'), { stage: 'capacity', code: 'enospc', retryable: true }],
    [
      'a failure of its own',
      new FailureError(failure('canonical_loading', 'canonical_source_failed', 'gone')),
      { stage: 'canonical_loading', code: 'canonical_source_failed' },
    ],
  ])('that ends with %s leaves nothing', async (_, error, expected) => {
    const scenario = await store().made();
    const result = await build(scenario, async (writer) => {
      await write(writer, 'a.safetensors', ['a']);
      await writer.openPayload('b.safetensors', [tensorSpec('b', [9])]);
      throw error;
    });
    expect(result).toMatchObject({ status: 'failed', failure: expected });
    await expectNothingLeft(scenario);
  });

  const one = [tensorSpec('a', [4])];
  test.each<[string, string, Produce]>([
    ['writes nothing', 'no payload', async () => metadataOfTests],
    [
      'leaves a payload open',
      'left payload files open',
      async (writer) => {
        await writer.openPayload('a.safetensors', one);
        return metadataOfTests;
      },
    ],
    [
      'closes too early',
      'before "a" was fully written',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.write('a', Buffer.alloc(3));
        await payload.close();
        return metadataOfTests;
      },
    ],
    [
      'writes too much',
      'gap or overlap',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.write('a', Buffer.alloc(5));
        return metadataOfTests;
      },
    ],
    [
      'writes twice',
      'gap or overlap',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.write('a', Buffer.alloc(4));
        await payload.write('a', Buffer.alloc(4));
        return metadataOfTests;
      },
    ],
    [
      'leaves a gap',
      'gap or overlap',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', [...one, tensorSpec('b', [4])]);
        await payload.write('b', Buffer.alloc(4));
        return metadataOfTests;
      },
    ],
    [
      'writes what it did not declare',
      '"x" was not declared',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.write('x', Buffer.alloc(4));
        return metadataOfTests;
      },
    ],
    [
      'copies past the end',
      'past the payload',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.copy([{ fd: 0, offset: 0, length: 5, cast: 'none' }]);
        return metadataOfTests;
      },
    ],
    [
      'writes to a closed payload',
      'is closed',
      async (writer) => {
        const payload = await writer.openPayload('a.safetensors', one);
        await payload.write('a', Buffer.alloc(4));
        await payload.close();
        await payload.close();
        return metadataOfTests;
      },
    ],
    [
      'uses a name twice',
      'opened before',
      async (writer) => {
        await write(writer, 'a.safetensors', ['a']);
        await write(writer, 'a.safetensors', ['b']);
        return metadataOfTests;
      },
    ],
    [
      'puts a tensor into two payloads',
      'written to two payloads',
      async (writer) => {
        await write(writer, 'a.safetensors', ['a']);
        await write(writer, 'b.safetensors', ['a']);
        return metadataOfTests;
      },
    ],
    [
      'declares a tensor twice',
      'declares "a" twice',
      async (writer) => {
        await writer.openPayload('a.safetensors', [...one, ...one]);
        return metadataOfTests;
      },
    ],
    [
      'declares no tensor',
      'must hold a tensor',
      async (writer) => {
        await writer.openPayload('a.safetensors', []);
        return metadataOfTests;
      },
    ],
    [
      'has other schemas than its identity',
      'schemas are not those',
      async (writer) => {
        await write(writer, 'a.safetensors', ['a']);
        return { ...metadataOfTests, producerSchema: 'm2' };
      },
    ],
    [
      'gives metadata without a canonical form',
      'Infinity',
      async (writer) => {
        await write(writer, 'a.safetensors', ['a']);
        return { ...metadataOfTests, formatMetadata: Infinity };
      },
    ],
  ])('that %s fails, with the reason, and leaves nothing', async (_, words, produce) => {
    const scenario = await store().made();
    const result = await build(scenario, produce);
    expect(result).toMatchObject({
      status: 'failed',
      failure: { stage: 'production', code: 'producer_failed', retryable: false },
    });
    expect((result as { failure: { message: string } }).failure.message).toContain(words);
    await expectNothingLeft(scenario);
  });

  test('that fails with writes on their way: they end before their descriptor can become another file', async () => {
    const scenario = await store().made();
    const writes: Promise<unknown>[] = [];
    const piece = Buffer.alloc(16 * KiB);
    const count = 500;
    const result = await build(scenario, async (writer) => {
      const payload = await writer.openPayload('a.safetensors', [tensorSpec('a', [count * piece.length])]);
      for (let index = 0; index < count; index += 1) {
        writes.push(payload.write('a', piece).catch((error: unknown) => error));
      }
      throw new Error('the checkpoint is unreadable');
    });
    expect(result.status).toBe('failed');
    // Into a descriptor that was closed under them, the later ones would fail, or worse.
    expect((await Promise.all(writes)).filter((error) => error !== undefined)).toEqual([]);
    await expectNothingLeft(scenario);
  });

  test('may do without a payload that could not be opened, whose bytes then do not count', async () => {
    const scenario = await store({ maxArtifactBytes: 8 * KiB }).made();
    const spec = [tensorSpec('a', [5 * KiB])];
    const result = await build(scenario, async (writer) => {
      // One that is refused before it exists, one that the file system refuses.
      await expect(writer.openPayload('a.safetensors', [tensorSpec('a', [9 * KiB])])).rejects.toThrow(
        'this store allows',
      );
      await expect(writer.openPayload(`${'x'.repeat(300)}.safetensors`, spec)).rejects.toThrow(
        'ENAMETOOLONG',
      );
      const payload = await writer.openPayload('a.safetensors', spec);
      await payload.write('a', Buffer.alloc(5 * KiB));
      await payload.close();
      return metadataOfTests;
    });
    expect(result.status).toBe('built');
    expect((await scenario.lookup('a', 'full_checksum')).status).toBe('hit');
  });

  test.each(['a', 'a.safetensors/', '../a.safetensors', '/a.safetensors', '', '.', 'x/y.safetensors'])(
    'that names a payload %j fails',
    async (name) => {
      const scenario = await store().made();
      const result = await build(scenario, async (writer) => {
        await write(writer, name, ['a']);
        return metadataOfTests;
      });
      expect(result).toMatchObject({ status: 'failed', failure: { code: 'producer_failed' } });
      await expectNothingLeft(scenario);
    },
  );
});

describe('limits', () => {
  test.each([
    ['artifact_too_large', { maxArtifactBytes: 4 * KiB }],
    ['store_limit_exceeded', { maxStoreBytes: 4 * KiB }],
    ['insufficient_capacity', { minFreeBytes: 2 ** 52 }],
  ] as const)('%s, before a byte of the payload is written', async (code, limit) => {
    const scenario = await store(limit).made();
    let opened = false;
    const result = await build(scenario, async (writer) => {
      await writer.openPayload('a.safetensors', [tensorSpec('a', [4 * KiB])]);
      opened = true;
      return metadataOfTests;
    });
    expect(result).toMatchObject({
      status: 'failed',
      failure: { stage: 'capacity', code, retryable: true },
    });
    expect(opened).toBe(false);
    expect(await scenario.entries()).toEqual([]);
  });

  test('count header, manifest and marker too, to the byte', async () => {
    const scenario = await store().artifact('a', content).made();
    const entry = scenario.artifactPath('a');
    const size = readdirSync(entry).reduce((sum, name) => sum + lstatSync(join(entry, name)).size, 0);
    expect(await (await store({ maxArtifactBytes: size }).made()).buildStatus('a', content)).toBe('built');
    expect(await (await store({ maxArtifactBytes: size - 1 }).made()).build('a', content)).toMatchObject({
      status: 'failed',
      failure: { code: 'artifact_too_large' },
    });
  });

  test.each(['quarantined', 'temporary', 'other'] as const)(
    '%s bytes count towards the store',
    async (what) => {
      const limited = store({ maxStoreBytes: 12 * KiB });
      const filled =
        what === 'quarantined'
          ? limited.artifact('b', { bytes: 6 * KiB }).quarantined()
          : limited.deadBuild('b', { bytes: 9 * KiB });
      const scenario = await filled.made();
      expect(await scenario.build('a', content)).toMatchObject({ failure: { code: 'store_limit_exceeded' } });
    },
  );
});

describe('a signal', () => {
  test.each(['atStart', 'midway', 'atEnd'] as const)(
    '%s of the producer: its reason, and nothing is left',
    async (when) => {
      const scenario = await store({ admission: 'serialized', maxStoreBytes: 1e6 }).made();
      const cancel = new AbortController();
      const producer = syntheticProducer(identity, content, {
        [when]: () => cancel.abort(new Error('enough')),
      });
      await expect(build(scenario, producer, { signal: cancel.signal })).rejects.toThrow('enough');
      await expectNothingLeft(scenario);
    },
  );

  test.each(['domain-build.lock', `${identity.key}.build.lock`])('while %s is waited for', async (name) => {
    const scenario = await store({ admission: 'serialized', maxStoreBytes: 1e6 }).made();
    const lock = await FileLock.exclusive(scenario.path('locks', name), withoutWaiting);
    const cancel = new AbortController();
    const waiting = build(scenario, syntheticProducer(identity, content), { signal: cancel.signal });
    setImmediate(() => cancel.abort(new Error('enough')));
    await expect(waiting).rejects.toThrow('enough');
    expect(await scenario.heldLocks()).toEqual([name]);
    lock.release();
    await expectNothingLeft(scenario);
  });

  test('once it publishes comes too late', async () => {
    const scenario = await store().made();
    const cancel = new AbortController();
    const result = await build(scenario, syntheticProducer(identity, content), {
      signal: cancel.signal,
      onPhase: (phase) => {
        if (phase === 'publishing') cancel.abort(new Error('enough'));
      },
    });
    expect(result.status).toBe('built');
  });
});

test('a held build lock: a timeout that can be retried', async () => {
  const scenario = await store().made();
  const lock = await FileLock.exclusive(scenario.path('locks', `${identity.key}.build.lock`), withoutWaiting);
  expect(
    await build(scenario, syntheticProducer(identity, content), { deadline: deadlineIn(10) }),
  ).toMatchObject({
    status: 'timeout',
    failure: { stage: 'production', code: 'active_build_timeout', retryable: true },
  });
  lock.release();
  await expectNothingLeft(scenario);
});

describe('somebody else publishes the key first', () => {
  async function overtaken(seed: number): Promise<{ scenario: Scenario; result: StoreResult }> {
    const scenario = await store().made();
    const elsewhere = await store()
      .artifact('a', { ...content, seed })
      .made();
    const producer = syntheticProducer(identity, content, {
      atEnd: () => copyFolder(elsewhere.artifactPath('a'), scenario.artifactPath('a')),
    });
    return { scenario, result: await build(scenario, producer) };
  }

  test('with the same content: theirs is served, ours is dropped', async () => {
    const { scenario, result } = await overtaken(content.seed);
    expect(result.status).toBe('built');
    expect(scenario.names('tmp')).toEqual([]);
    expect(scenario.names('quarantine')).toEqual([]);
  });

  test('with other content: theirs stays, ours is quarantined as a collision', async () => {
    const { scenario, result } = await overtaken(6);
    expect(result).toMatchObject({
      status: 'failed',
      failure: { stage: 'validation', code: 'identity_collision', retryable: false },
    });
    expect(await scenario.entries('quarantined')).toMatchObject([
      { reason: 'identity-collision', invalidated: false },
    ]);
    const [name = ''] = scenario.names('quarantine');
    expect(lstatSync(scenario.path('quarantine', name)).mode & 0o7777).toBe(0o555);
    expect(scenario.names('tmp')).toEqual([]);
    expect((await scenario.lookup('a', 'full_checksum')).status).toBe('hit');
    expect(
      readFileSync(scenario.artifactPath('a', 'weights.safetensors')).includes(
        bodyOf({ ...content, seed: 6 }),
      ),
    ).toBe(true);
  });
});

test('leftovers of this key go, those of other keys stay', async () => {
  const scenario = await store()
    .artifact('b', content)
    .quarantined('cleanup')
    .artifact('a', content)
    .quarantined('publication_failure')
    .artifact('a', content)
    .withTombstone()
    .denied()
    .deadBuild('a')
    .deadBuild('b')
    .made();
  expect(await scenario.buildStatus('a', content)).toBe('built');
  const left = await scenario.entries();
  const name = (key: string): string => (key === identity.key ? 'a' : 'b');
  expect(left.map(({ key, state, reason }) => `${name(key)} ${state} ${reason ?? ''}`.trim()).sort()).toEqual(
    [
      'a quarantined publication_failure',
      'a quarantined validation_failure',
      'a ready',
      'b quarantined cleanup',
      'b temporary',
    ],
  );
});
