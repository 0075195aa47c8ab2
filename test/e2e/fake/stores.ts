/** Makers of what a host would tell about stores: short to write in a test, and always the same for the same numbers. */
import type {
  DomainLocks,
  DomainOverview,
  DomainSummary,
  InventoryRow,
} from '../../../src/contract/domain-schemas.ts';
import { failure } from '../../../src/contract/failure.ts';
import type { Store } from '../../../src/contract/store-schemas.ts';
import { gib, keyOf, minute } from './units.ts';

type OnlineStore = Extract<Store, { state: 'online' }>;

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

export function overview(rows: readonly InventoryRow[]): DomainOverview['groups'] {
  const kind = ({ state, model, representation }: InventoryRow): string =>
    JSON.stringify([state, model, representation]);
  return [...Map.groupBy(rows, kind).values()]
    .map((members) => {
      const [{ state, model, representation }] = members as [InventoryRow];
      const sum = (of: (row: InventoryRow) => number): number =>
        members.reduce((total, row) => total + of(row), 0);
      const allocatedBytes = sum((row) => row.allocatedBytes);
      return {
        state,
        model,
        representation,
        entries: members.length,
        bytes: sum(({ bytes }) => bytes),
        allocatedBytes,
        freeableBytes: allocatedBytes,
      };
    })
    .sort((a, b) => b.bytes - a.bytes);
}
