/** A whole build in this process: what the published artifact holds, against references of its own. */
import { createHash } from 'node:crypto';
import { appendFileSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { constants, openSync, closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { native } from '#native';
import { planArtifact } from '../../../src/production/artifact-plan.ts';
import { runBuild } from '../../../src/production/build-job.ts';
import type { BuildRequest, BuildResult, ChildEvent } from '../../../src/production/build-protocol.ts';
import { inspectCheckpoint } from '../../../src/production/checkpoint.ts';
import { fingerprintOf } from '../../../src/production/fingerprint.ts';
import { createDomain, type Domain } from '../../../src/store/domain.ts';
import { ArtifactIdentity } from '../../../src/store/identity.ts';
import type { Lease } from '../../../src/store/lease.ts';
import { lookup } from '../../../src/store/lookup.ts';
import { manifestBytes } from '../../../src/store/manifest.ts';
import {
  CheckpointFolder,
  everyDtype,
  float16Bits,
  float32Bits,
  safetensors,
  tensor,
} from '../../fixtures/checkpoint.ts';
import { bfloat16OfFloat32, float32OfHalf } from './bfloat16-reference.ts';

let base: string;
let folder: CheckpointFolder;
let domain: Domain;

beforeEach(async () => {
  base = mkdtempSync(join(tmpdir(), 'weightroom-build-'));
  folder = new CheckpointFolder(join(base, 'tiny'));
  const created = await createDomain({ root: join(base, 'store') });
  if (!created.ok) throw new Error(created.failure.message);
  domain = created.value.domain;
});
afterEach(async () => {
  const parent = openSync(dirname(base), constants.O_RDONLY);
  await native.removeTree(parent, basename(base));
  closeSync(parent);
  rmSync(base, { recursive: true, force: true });
});

async function build(
  request: Partial<BuildRequest> = {},
  onEvent: (event: ChildEvent) => void = () => undefined,
  signal = new AbortController().signal,
): Promise<BuildResult> {
  const full: BuildRequest = {
    checkpoint: folder.path,
    domain: domain.root,
    representation: 'preserve',
    validation: 'full_checksum',
    ...request,
  };
  return await runBuild(full, { signal, emit: onEvent });
}

async function withLease<T>(result: BuildResult, use: (lease: Lease) => Promise<T>): Promise<T> {
  expect(result.failure).toBeNull();
  const identity = ArtifactIdentity.of(result.identity);
  const found = await lookup(domain, identity, { deadline: 0, validation: 'full_checksum' });
  if (found.status !== 'hit') throw new Error(found.status);
  try {
    return await use(found.lease);
  } finally {
    found.lease.close();
  }
}

const staged = (): string[] => readdirSync(join(domain.root, 'tmp'));

describe('what is published', () => {
  test('preserve: every tensor, byte for byte, with its own digest', async () => {
    const tensors = everyDtype();
    folder.weights('model.safetensors', tensors);
    const result = await build();
    expect(result.status).toBe('built');
    await withLease(result, async (lease) => {
      expect(lease.manifest.tensors).toHaveLength(Object.keys(tensors).length);
      for (const [name, { shape, bytes }] of Object.entries(tensors)) {
        expect((await lease.readTensor(name)).equals(bytes), name).toBe(true);
        expect(lease.tensor(name)).toMatchObject({
          shape,
          kind: 'parameter',
          role: 'weight',
          sha256: createHash('sha256').update(bytes).digest('hex'),
        });
      }
      expect(lease.manifest.files.map(({ file_name }) => file_name)).toEqual([
        'weights-00001-of-00001.safetensors',
      ]);
      expect(result.artifactBytes).toBe(lease.manifest.files[0]?.size);
    });
  });

  test('bf16: all 65536 halves and as many floats, against a reference', async () => {
    const halves = Uint16Array.from({ length: 65_536 }, (_, index) => index);
    const floats = Uint32Array.from({ length: 65_536 }, (_, index) => Math.imul(index, 0x9e3779b1) >>> 0);
    // Ties in both directions, the largest finite values, infinities, NaNs of several kinds, signed zeros.
    floats.set([
      0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f800000,
      0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x00000000, 0x80000000, 0x00000001, 0x00008000,
      0x00018000,
    ]);
    folder.weights('model.safetensors', {
      odd: tensor('U8', [3]),
      halves: float16Bits(halves),
      floats: float32Bits(floats),
      kept: tensor('F64', [2]),
    });
    const result = await build({ representation: 'bf16' });
    expect(result.status).toBe('built');
    await withLease(result, async (lease) => {
      expect(lease.tensor('floats')).toMatchObject({ dtype: 'torch.bfloat16', nbytes: 131_072 });
      expect(lease.tensor('kept')).toMatchObject({ dtype: 'torch.float64' });
      const cast = await lease.readTensor('floats');
      const view = new DataView(new ArrayBuffer(4));
      floats.forEach((bits, index) => {
        view.setUint32(0, bits);
        const got = cast.readUInt16LE(index * 2);
        if (got !== bfloat16OfFloat32(view.getFloat32(0))) expect(got, `float ${bits.toString(16)}`).toBe(-1);
      });
      const castHalves = await lease.readTensor('halves');
      halves.forEach((bits, index) => {
        const got = castHalves.readUInt16LE(index * 2);
        if (got !== bfloat16OfFloat32(float32OfHalf(bits))) expect(got, `half ${bits.toString(16)}`).toBe(-1);
      });
    });
  });

  test('shards in any order become one artifact in name order; what the index leaves out is left out', async () => {
    folder
      .weights('s1.safetensors', { 'z.weight': tensor('F32', [4], 1), 'a.weight': tensor('F16', [3], 2) })
      .weights('s2.safetensors', { 'm.weight': tensor('BF16', [5], 3), unlisted: tensor('U8', [1]) })
      .index({ 'z.weight': 's1.safetensors', 'a.weight': 's1.safetensors', 'm.weight': 's2.safetensors' });
    const result = await build();
    await withLease(result, async (lease) => {
      expect(lease.manifest.tensors.map(({ name }) => name)).toEqual(['a.weight', 'm.weight', 'z.weight']);
      expect((await lease.readTensor('m.weight')).equals(tensor('BF16', [5], 3).bytes)).toBe(true);
    });
  });

  test('the manifest is no larger than planned, and hardly smaller', async () => {
    const many = Array.from(
      { length: 2000 },
      (_, index) => [`l.${index}.é"`, tensor('F32', [3, index % 7])] as const,
    );
    folder.weights('model.safetensors', Object.fromEntries(many));
    const inspection = await inspectCheckpoint(folder.path);
    if (!inspection.ok) throw new Error('the fixture is broken');
    const plan = planArtifact(inspection.checkpoint, 'bf16');
    const planned = plan.ok ? plan.value.manifestBytes : 0;
    await withLease(await build({ representation: 'bf16' }), async (lease) => {
      const real = manifestBytes(lease.manifest).length;
      expect(real).toBeLessThanOrEqual(planned);
      // Within the allowance for all that does not grow with the number of tensors.
      expect(planned - real).toBeLessThan(80_000);
    });
  });

  test('a second build is a hit, and says what the first said', async () => {
    folder.weights('model.safetensors', everyDtype());
    const first = await build();
    const second = await build();
    expect([first.status, second.status]).toEqual(['built', 'hit']);
    expect(second).toMatchObject({
      key: first.key,
      artifactBytes: first.artifactBytes,
      identity: first.identity,
    });
  });

  test('given names go into the identity, guessed ones otherwise', async () => {
    folder.weights('model.safetensors', { x: tensor('U8', [1]) });
    const result = await build({ modelId: 'org/name', component: 'transformer' });
    expect(result.identity?.source).toMatchObject({ model_id: 'org/name', revision: 'unknown' });
    expect(result.identity?.component.name).toBe('transformer');
    expect((await build()).identity?.source.model_id).toBe('tiny');
  });
});

describe('the fingerprint', () => {
  test('is a digest over names, sizes and contents, and over what an index leaves out', async () => {
    const content = safetensors({ x: tensor('U8', [1]), y: tensor('U8', [1]) });
    folder.file('s.safetensors', content).index({ x: 's.safetensors', y: 's.safetensors' });
    const sha256 = createHash('sha256').update(content).digest('hex');
    const document = `{"files":[{"name":"s.safetensors","sha256":"${sha256}","size":${content.length}}],"omitted_tensors":[],"schema":"weightroom-checkpoint-source-v1"}`;
    const all = (await build()).identity?.source.fingerprint;
    expect(all).toBe(createHash('sha256').update(document).digest('hex'));
    folder.index({ x: 's.safetensors' });
    expect((await build()).identity?.source.fingerprint).not.toBe(all);
  });

  test('depends on nothing else: a copy of the files has the same one', async () => {
    const copy = new CheckpointFolder(join(base, 'copy')).weights('model.safetensors', everyDtype());
    folder.weights('model.safetensors', everyDtype());
    const first = await build();
    const second = await build({ checkpoint: copy.path });
    expect(second.identity?.source.fingerprint).toBe(first.identity?.source.fingerprint);
    const inspection = await inspectCheckpoint(copy.path);
    if (inspection.ok)
      expect(fingerprintOf(inspection.checkpoint, [])).not.toBe(first.identity?.source.fingerprint);
  });
});

describe('what is refused', () => {
  test('a broken checkpoint, with all its problems as details, before anything is staged', async () => {
    folder.index({ x: 'gone.safetensors', y: 'also-gone.safetensors' });
    const phases: string[] = [];
    const result = await build({}, (event) => event.type === 'phase' && phases.push(event.phase));
    expect(result).toMatchObject({
      status: 'failed',
      key: null,
      failure: {
        stage: 'canonical_loading',
        code: 'canonical_source_failed',
        retryable: false,
        details: { problem_count: 2, problems: [{ kind: 'shard-missing' }, { kind: 'shard-missing' }] },
      },
    });
    expect(result.failure?.message).toContain('(and 1 more problem)');
    expect(phases).toEqual(['inspecting']);
  });

  test('a domain that is not there', async () => {
    folder.weights('model.safetensors', everyDtype());
    expect(await build({ domain: join(base, 'nowhere') })).toMatchObject({
      status: 'failed',
      failure: { stage: 'domain', code: 'domain_unavailable' },
    });
  });

  test('bf16 of unscaled fp8, before any weight is read (P8)', async () => {
    folder.weights('model.safetensors', { 'l.weight': tensor('F8_E4M3', [4]) });
    const result = await build({ representation: 'bf16' });
    expect(result.failure).toMatchObject({ code: 'producer_unsupported' });
    expect((await build()).status).toBe('built');
  });
});

describe('a file that changes while it is read', () => {
  const changes: [string, (path: string) => void][] = [
    ['grows', (path) => appendFileSync(path, 'x')],
    ['is replaced', (path) => rmSync(path)],
    ['is rewritten in place', (path) => writeFileSync(path, safetensors({ x: tensor('U8', [9], 5) }))],
    ['gets another time', (path) => utimesSync(path, 1, 1)],
  ];
  for (const phase of ['fingerprinting', 'producing', 'syncing'] as const) {
    test.each(changes)(`and %s, seen at the start of ${phase}`, async (_what, change) => {
      folder.weights('model.safetensors', { x: tensor('U8', [9]) });
      const path = join(folder.path, 'model.safetensors');
      const result = await build({}, (event) => {
        if (event.type === 'phase' && event.phase === phase) change(path);
      });
      // From `syncing` on, everything is copied: what happens to the source no longer matters.
      if (phase === 'syncing') return expect(result.status).toBe('built');
      expect(result).toMatchObject({
        status: 'failed',
        failure: { code: 'canonical_source_failed', retryable: true },
      });
      expect(result.failure?.message).toContain('changed while being read');
      expect(result.failure?.message).toContain('build again');
      expect(staged()).toEqual([]);
    });
  }
});

describe('cancelling', () => {
  test.each(['inspecting', 'fingerprinting', 'looking-up', 'preparing', 'producing', 'hashing', 'syncing'])(
    'at the start of %s leaves nothing staged',
    async (phase) => {
      folder.weights('model.safetensors', everyDtype());
      const cancelling = new AbortController();
      const result = await build(
        {},
        (event) => {
          if (event.type === 'phase' && event.phase === phase) cancelling.abort(new Error('cancelled'));
        },
        cancelling.signal,
      );
      expect(result).toMatchObject({ status: 'cancelled', failure: null, artifactBytes: null });
      expect(staged()).toEqual([]);
      expect((await build()).status).toBe('built');
    },
  );
});
