/** Makers of what a host would tell: short to write in a test, and always the same for the same numbers. */
import { createHash } from 'node:crypto';
import type { Artifact, TensorRow } from '../../src/contract/artifact-schemas.ts';
import type { Build, CheckpointInspection } from '../../src/contract/build-schemas.ts';
import type { DomainLocks, DomainSummary, InventoryRow } from '../../src/contract/domain-schemas.ts';
import { failure } from '../../src/contract/failure.ts';
import type { Store } from '../../src/contract/store-schemas.ts';

export const gib = 1024 ** 3;
export const minute = 60_000;
type OnlineStore = Extract<Store, { state: 'online' }>;

export function keyOf(seed: string): string {
  return createHash('sha256').update(seed).digest('hex');
}

const models = [
  ['Qwen/Qwen3-Omni-30B-A3B', 64],
  ['Qwen/Qwen2.5-Omni-7B', 16],
  ['black-forest-labs/FLUX.1-dev', 24],
  ['Wan-AI/Wan2.2-T2V-A14B', 28],
  ['stabilityai/stable-diffusion-3.5-large', 18],
  ['HunyuanVideo/HunyuanVideo-1.5', 26],
] as const;
const components = ['thinker', 'talker', 'transformer', 'text_encoder', 'vae'] as const;
const sizes = [1, 2, 4, 8] as const;

const plainRow: InventoryRow = {
  id: '',
  key: '',
  state: 'ready',
  name: '',
  bytes: 0,
  allocatedBytes: 0,
  reason: null,
  served: true,
  invalidated: false,
  denied: false,
  building: false,
  modifiedAtMs: 0,
  model: null,
  modelRevision: null,
  component: null,
  representation: null,
  dtype: null,
  layout: null,
  tensorParallelSize: null,
  tensorParallelRank: null,
  producer: null,
  problem: null,
  lastVerified: null,
};

/** The n-th entry of a store, among them some of every state. */
export function row(n: number, nowMs: number): InventoryRow {
  const key = keyOf(`artifact ${n}`);
  const [model, modelGib] = models[n % models.length] as (typeof models)[number];
  const size = sizes[Math.floor(n / 6) % sizes.length] as number;
  const bytes = Math.floor(((modelGib * gib) / size) * (0.4 + ((n * 7919) % 97) / 160));
  const known = {
    ...plainRow,
    key,
    bytes,
    allocatedBytes: bytes + 4096,
    modifiedAtMs: nowMs - ((n * 7477) % 40_000) * minute,
    model,
    modelRevision: keyOf(model).slice(0, 40),
    component: components[n % components.length] as string,
    representation: n % 3 === 0 ? 'bf16' : 'preserve',
    dtype: n % 11 === 0 ? 'float8_e4m3fn' : 'bfloat16',
    layout: 'contiguous',
    tensorParallelSize: size,
    tensorParallelRank: n % size,
    producer: 'checkpoint',
  };
  if (n % 29 === 5) {
    const reason = 'checksum_mismatch';
    return {
      ...known,
      id: `quarantined/${key}.1`,
      name: `${key}.1`,
      state: 'quarantined',
      served: false,
      reason,
    };
  }
  if (n % 61 === 7) {
    return { ...known, id: `ready/${key}`, name: key, served: false, denied: true };
  }
  if (n % 61 === 8) {
    const reason = 'validation_failure';
    const marker = { ...plainRow, key, bytes: 212, allocatedBytes: 4096, modifiedAtMs: known.modifiedAtMs };
    return { ...marker, id: `denied/${key}`, name: `${key}.json`, state: 'denied', served: false, reason };
  }
  if (n % 83 === 9) {
    const building = n % 2 === 0;
    const name = `${key}.${4100 + n}`;
    return {
      ...known,
      id: `temporary/${name}`,
      name,
      state: 'temporary',
      served: false,
      building,
      bytes: Math.floor(bytes / 2),
    };
  }
  const lastVerified =
    n % 4 === 1
      ? ({
          atMs: nowMs - 3 * minute,
          level: 'full_checksum',
          status: n % 40 === 1 ? 'invalid' : 'valid',
        } as const)
      : null;
  return { ...known, id: `ready/${key}`, name: key, lastVerified };
}

export function rows(count: number, nowMs: number): InventoryRow[] {
  return Array.from({ length: count }, (_, n) => row(n, nowMs));
}

export function storeOf(
  root: string,
  entries: readonly InventoryRow[],
  nowMs: number,
  { limitGib = null as number | null, freeGib = 900, revision = 1 } = {},
): OnlineStore {
  const tally = (chosen: (row: InventoryRow) => boolean): { entries: number; bytes: number } => {
    const some = entries.filter(chosen);
    return { entries: some.length, bytes: some.reduce((sum, { bytes }) => sum + bytes, 0) };
  };
  const ready = tally(({ state, served }) => state === 'ready' && served);
  const unserved = tally(({ state, served }) => state === 'ready' && !served);
  const denied = tally(({ state }) => state === 'denied');
  const quarantined = tally(({ state }) => state === 'quarantined');
  const building = tally(({ state, building: isLive }) => state === 'temporary' && isLive);
  const leftover = tally(({ state, building: isLive }) => state === 'temporary' && !isLive);
  const other = { entries: 6, bytes: 48_000 };
  const parts = [ready, unserved, denied, quarantined, building, leftover, other];
  const admission = limitGib === null ? 'concurrent' : 'serialized';
  const maxStoreBytes = limitGib === null ? null : limitGib * gib;
  const policy = {
    ...(admission === 'serialized' ? { build_admission: 'serialized' } : {}),
    eviction: 'none',
    max_artifact_bytes: null,
    max_store_bytes: maxStoreBytes,
    min_free_bytes: 20 * gib,
    policy_version: 1,
    schema_version: admission === 'serialized' ? 2 : 1,
  };
  return {
    state: 'online',
    root,
    name: root.split('/').at(-1) as string,
    domain: {
      uuid: '0b9c1d1e-4f3a-4c58-9d25-1f0c6f5b7a11',
      scope: 'node',
      domainId: 'node',
      admission,
      storageClass: 'disk',
      filesystemType: 'ext4',
      policyVersion: 1,
      capacity: { maxArtifactBytes: null, maxStoreBytes, minFreeBytes: 20 * gib },
      policyDocument: JSON.stringify(policy),
    },
    usage: {
      measuredAtMs: nowMs,
      revision,
      storeBytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
      filesystemFreeBytes: freeGib * gib,
      ready,
      denied,
      unserved,
      quarantined,
      building,
      leftover,
      other,
      reclaimableBytes: unserved.bytes + quarantined.bytes + leftover.bytes,
    },
  };
}

export function offlineStore(root: string): Store {
  const message = `${root} is not there. The disk that it was on is not mounted, or the folder was moved. Mount the disk, then try again.`;
  const why = failure('domain', 'domain_unavailable', message, { retryable: true, details: { root } });
  return { state: 'offline', root, name: root.split('/').at(-1) as string, failure: why };
}

const mostTiles = 400;

export function treemap(entries: readonly InventoryRow[]): DomainSummary['models'] {
  const largest = (a: { bytes: number }, b: { bytes: number }): number => b.bytes - a.bytes;
  const sum = (some: readonly { bytes: number }[]): { entries: number; bytes: number } => {
    return { entries: some.length, bytes: some.reduce((total, { bytes }) => total + bytes, 0) };
  };
  const shown = entries.filter(({ state }) => state !== 'denied').sort(largest);
  const tiles = new Set(shown.slice(0, mostTiles));
  return [...Map.groupBy(shown, ({ model }) => model)]
    .map(([model, members]) => ({
      model,
      ...sum(members),
      layouts: [...Map.groupBy(members, (one) => `contiguous TP${one.tensorParallelSize}`)]
        .map(([layout, inLayout]) => ({
          layout,
          ...sum(inLayout),
          artifacts: inLayout
            .filter((one) => tiles.has(one))
            .map((one) => ({
              id: one.id,
              key: one.key,
              label: `${one.component} rank ${one.tensorParallelRank}`,
              state: stateOf(one),
              bytes: one.bytes,
            })),
          rest: sum(inLayout.filter((one) => !tiles.has(one))),
        }))
        .sort(largest),
    }))
    .sort(largest);
}

function stateOf(one: InventoryRow): 'ready' | 'unserved' | 'quarantined' | 'building' | 'leftover' {
  if (one.state === 'temporary') return one.building ? 'building' : 'leftover';
  if (one.state === 'quarantined') return 'quarantined';
  return one.served ? 'ready' : 'unserved';
}

export function tensors(count: number): TensorRow[] {
  return Array.from({ length: count }, (_, n): TensorRow => {
    const layer = Math.floor(n / 4);
    const part = [
      'self_attn.qkv_proj.weight',
      'self_attn.o_proj.weight',
      'mlp.gate_up_proj.weight',
      'norm.weight',
    ][n % 4];
    const shape = n % 4 === 3 ? [4096] : n % 4 === 2 ? [24_576, 4096] : [6144, 4096];
    return {
      name: `model.layers.${layer}.${part}`,
      kind: 'parameter',
      role: 'weight',
      dtype: n % 4 === 3 ? 'float32' : 'bfloat16',
      shape,
      bytes: shape.reduce((product, length) => product * length, n % 4 === 3 ? 4 : 2),
      fileName: `weights-${String((n % 4) + 1).padStart(5, '0')}.safetensors`,
      sha256: keyOf(`tensor ${n}`),
    };
  });
}

export function artifact(root: string, entry: InventoryRow, all: readonly TensorRow[]): Artifact {
  const share = (
    name: string,
    some: readonly TensorRow[],
  ): { name: string; tensors: number; bytes: number } => {
    return { name, tensors: some.length, bytes: some.reduce((sum, { bytes }) => sum + bytes, 0) };
  };
  const identity = {
    source: { repository: entry.model, revision: entry.modelRevision },
    component: entry.component,
    representation: { kind: entry.representation, dtype: entry.dtype },
    layout: { kind: 'contiguous', tp_size: entry.tensorParallelSize, tp_rank: entry.tensorParallelRank },
    schema: 'host-weight-identity/1',
  };
  const fields = Object.entries(identity).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).map(([inner, text]) => ({ path: `${name}.${inner}`, value: String(text) }))
      : [{ path: name, value: String(value) }],
  );
  return {
    key: entry.key,
    path: `${root}/ready/${entry.key}`,
    entries: [entry],
    identity: { fields, document: JSON.stringify(identity, null, 2) },
    contents: {
      contentSha256: keyOf(`content ${entry.key}`),
      producerSchema: 'checkpoint/1',
      restorerSchema: 'safetensors/1',
      formatMetadata: '{}',
      files: [1, 2, 3, 4].map((n) => {
        const name = `weights-0000${n}.safetensors`;
        return { name, bytes: Math.floor(entry.bytes / 4), sha256: keyOf(`${entry.key} ${name}`) };
      }),
      tensors: all.length,
      tensorBytes: share('', all).bytes,
      bytesByDtype: [...Map.groupBy(all, ({ dtype }) => dtype)].map(([name, some]) => share(name, some)),
      bytesByLayer: [...Map.groupBy(all, ({ name }) => `layer ${name.split('.')[2]}`)].map(([name, some]) =>
        share(name, some),
      ),
    },
    problem: null,
    locks: [],
  };
}

export function build(id: string, nowMs: number, changes: Partial<Build> = {}): Build {
  const startedAtMs = nowMs - 4 * minute;
  return {
    id,
    kind: 'build',
    root: '/data/weights',
    checkpoint: '/models/Qwen3-Omni-30B-A3B',
    representation: 'preserve',
    component: 'model',
    modelId: 'Qwen/Qwen3-Omni-30B-A3B',
    revision: keyOf(id).slice(0, 40),
    pid: 41_322,
    startedAtMs,
    endedAtMs: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'inspecting', startedAtMs: startedAtMs + 2000 },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 6000 },
      { phase: 'waiting-for-admission', startedAtMs: startedAtMs + 30_000 },
      { phase: 'producing', startedAtMs: startedAtMs + 90_000 },
    ],
    progress: {
      doneBytes: Math.floor(38.4 * gib),
      totalBytes: 61 * gib,
      bytesPerSecond: 1.42 * gib,
      secondsLeft: 16,
    },
    waitingFor: null,
    warnings: [],
    cancelling: false,
    result: null,
    ...changes,
  };
}

export function failedBuild(id: string, nowMs: number): Build {
  const startedAtMs = nowMs - 12 * minute;
  const endedAtMs = startedAtMs + 95_000;
  const message =
    'The build needs 61.0 GiB, and the store has 43.2 GiB left of its limit of 512.0 GiB. Remove artifacts that are not needed, or build into another store.';
  return build(id, nowMs, {
    modelId: 'Wan-AI/Wan2.2-T2V-A14B',
    checkpoint: '/models/Wan2.2-T2V-A14B',
    startedAtMs,
    endedAtMs,
    progress: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 3000 },
      { phase: 'preparing', startedAtMs: startedAtMs + 80_000 },
    ],
    result: {
      status: 'failed',
      key: keyOf(id),
      artifactBytes: null,
      elapsedMs: 95_000,
      failure: failure('capacity', 'store_limit_exceeded', message, { details: { needed_bytes: 61 * gib } }),
      leftBehind: [],
    },
  });
}

export function builtBuild(id: string, nowMs: number): Build {
  const startedAtMs = nowMs - 9 * minute;
  return build(id, nowMs, {
    modelId: 'Qwen/Qwen2.5-Omni-7B',
    checkpoint: '/models/Qwen2.5-Omni-7B',
    startedAtMs,
    endedAtMs: nowMs - 5 * minute,
    progress: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 3000 },
      { phase: 'producing', startedAtMs: startedAtMs + 40_000 },
      { phase: 'publishing', startedAtMs: startedAtMs + 200_000 },
    ],
    result: {
      status: 'built',
      key: keyOf('artifact 1'),
      artifactBytes: 15 * gib,
      elapsedMs: 4 * minute,
      failure: null,
      leftBehind: [],
    },
  });
}

export function inspection(checkpoint: string): CheckpointInspection {
  if (checkpoint.includes('broken')) {
    const message = 'weights-00002.safetensors ends before its last tensor does: 1,024 bytes are missing.';
    const problem = { kind: 'truncated', file: 'weights-00002.safetensors', tensor: null, message };
    return { checkpoint, problems: [problem], problemCount: 1, found: null };
  }
  const files = Array.from({ length: 16 }, (_, n) => {
    return { name: `model-${String(n + 1).padStart(5, '0')}-of-00016.safetensors`, bytes: 3.8 * gib };
  });
  const plan = {
    dtype: 'bfloat16',
    payloadFiles: 16,
    tensorBytes: 61 * gib,
    artifactBytes: Math.floor(61.02 * gib),
  };
  return {
    checkpoint,
    problems: [],
    problemCount: 0,
    found: {
      folder: checkpoint,
      indexFile: 'model.safetensors.index.json',
      files: files.map(({ name, bytes }) => ({ name, bytes: Math.floor(bytes) })),
      tensors: 18_867,
      bytes: 61 * gib,
      bytesByDtype: [
        { dtype: 'bfloat16', bytes: 60 * gib },
        { dtype: 'float32', bytes: gib },
      ],
      ignoredFiles: ['consolidated.safetensors'],
      ignoredTensors: 0,
      modelId: 'Qwen/Qwen3-Omni-30B-A3B',
      revision: keyOf(checkpoint).slice(0, 40),
      offers: [
        { representation: 'preserve', plan, failure: null },
        {
          representation: 'bf16',
          plan: null,
          failure: failure('production', 'producer_unsupported', 'It is bfloat16 already: keep it as it is.'),
        },
      ],
    },
  };
}

export function locks(nowMs: number): DomainLocks {
  const command = '/usr/bin/node src/production/build-process.ts --run 7f2c';
  const python = 'python3 -m vllm serve Qwen/Qwen3-Omni-30B-A3B --omni --tensor-parallel-size 2';
  const holder = {
    pid: 41_322,
    command,
    mode: 'exclusive',
    seenSinceMs: nowMs - 3 * minute,
    buildId: 'b1',
  } as const;
  const lease = {
    pid: 39_877,
    command: python,
    mode: 'shared',
    seenSinceMs: nowMs - 95 * minute,
    buildId: null,
  } as const;
  return {
    measuredAtMs: nowMs,
    held: [
      { name: 'admission.lock', purpose: 'admission', key: null, holders: [holder], waiters: [] },
      {
        name: `artifact-${keyOf('artifact 1')}.lock`,
        purpose: 'artifact',
        key: keyOf('artifact 1'),
        holders: [lease],
        waiters: [],
      },
    ],
    free: 118,
  };
}
