/** How a checkpoint is laid out as payloads, and what is refused before anything is built (P3). */
import { expect, test } from 'vitest';
import { planArtifact, payloadSplitBytes } from '../../../src/production/artifact-plan.ts';
import type { Checkpoint, CheckpointTensor } from '../../../src/production/checkpoint.ts';
import { checkpointIdentity } from '../../../src/production/checkpoint-identity.ts';
import { compareCodePoints } from '../../../src/store/canonical-json.ts';
import { dtypeOfSafetensors, type Dtype } from '../../../src/store/dtypes.ts';

const file = {
  name: 'model.safetensors',
  path: '/model.safetensors',
  sizeBytes: 0,
  stamp: { dev: 0n, ino: 0n, sizeBytes: 0, mtimeNs: 0n, ctimeNs: 0n },
};

function checkpoint(sizes: Readonly<Record<string, number>>, dtypeName = 'F32'): Checkpoint {
  const dtype = dtypeOfSafetensors(dtypeName) as Dtype;
  const tensors: CheckpointTensor[] = Object.entries(sizes)
    .sort(([a], [b]) => compareCodePoints(a, b))
    .map(([name, elements]) => ({
      name,
      dtype,
      shape: [elements],
      file,
      offset: 0,
      nbytes: elements * dtype.bytes,
    }));
  return {
    path: '/',
    folder: '/',
    indexFile: null,
    files: [file],
    tensors,
    totalBytes: 0,
    bytesByDtype: new Map(),
    ignored: { files: [], tensors: [] },
    config: null,
  };
}

function layout(source: Checkpoint, representation: 'preserve' | 'bf16' = 'preserve'): [string, string[]][] {
  const plan = planArtifact(source, representation);
  if (!plan.ok) throw new Error(plan.failure.message);
  return plan.value.payloads.map(({ name, tensors }) => [
    name,
    tensors.map(({ source: { name: key } }) => key),
  ]);
}

const gibibyte = payloadSplitBytes / 4;

test('payloads end at the tensor that would pass 1 GiB; a larger one stands alone', () => {
  expect(layout(checkpoint({ a: gibibyte / 2, b: gibibyte / 2, c: 1, d: gibibyte * 2, e: 0, f: 1 }))).toEqual(
    [
      ['weights-00001-of-00004.safetensors', ['a', 'b']],
      ['weights-00002-of-00004.safetensors', ['c']],
      ['weights-00003-of-00004.safetensors', ['d']],
      ['weights-00004-of-00004.safetensors', ['e', 'f']],
    ],
  );
});

test('the split counts bytes as stored, after the cast', () => {
  const sizes = { a: gibibyte, b: gibibyte };
  expect(layout(checkpoint(sizes))).toHaveLength(2);
  expect(layout(checkpoint(sizes), 'bf16')).toEqual([['weights-00001-of-00001.safetensors', ['a', 'b']]]);
});

test('names go by code point, astral ones after the rest of the plane below', () => {
  expect(layout(checkpoint({ '\u{1f600}': 1, '\uffee': 1, Z: 1, a: 1 }))[0]?.[1]).toEqual([
    'Z',
    'a',
    '\uffee',
    '\u{1f600}',
  ]);
});

test('a manifest past 64 MiB is refused, with the numbers and what to do', () => {
  const many = Object.fromEntries(
    Array.from({ length: 250_000 }, (_, index) => [`layers.${index}.weight`, 1]),
  );
  const plan = planArtifact(checkpoint(many), 'preserve');
  expect(plan).toMatchObject({
    ok: false,
    failure: { stage: 'production', code: 'producer_unsupported', details: { tensor_count: 250_000 } },
  });
  const message = plan.ok ? '' : plan.failure.message;
  expect(message).toContain('250000 tensors');
  expect(message).toContain('more than 64 MiB');
  expect(message).toContain('Nothing was built');
});

test('the identity says what was planned, and one key stands for one of it', () => {
  const identity = (
    representation: 'preserve' | 'bf16',
    component = 'model',
    fingerprint = 'f'.repeat(64),
  ) => {
    const plan = planArtifact(checkpoint({ a: 4 }), representation);
    if (!plan.ok) throw new Error(plan.failure.message);
    const provenance = { modelId: 'org/name', revision: 'main' };
    return checkpointIdentity({ provenance, fingerprint, component, plan: plan.value });
  };
  const { document } = identity('bf16');
  expect(document.representation).toEqual({ name: 'bf16', dtype: 'torch.bfloat16', metadata: {} });
  expect(document.source).toEqual({
    model_id: 'org/name',
    revision: 'main',
    fingerprint: 'f'.repeat(64),
    metadata: {},
  });
  expect(document.producer).toMatchObject({ producer_id: 'weightroom.checkpoint', version: '1' });
  const keys = [
    identity('bf16'),
    identity('preserve'),
    identity('bf16', 'vae'),
    identity('bf16', 'model', 'e'),
  ];
  expect(new Set(keys.map(({ key }) => key)).size).toBe(4);
  expect(identity('bf16').key).toBe(keys[0]?.key);
});
