/**
 * The main job with nothing to prepare: a small checkpoint, a store in the default place, one built from the
 * other. Run again it finds all three.
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { formatBytes } from '../contract/bytes.ts';
import { failed, failure, succeeded, type Failure, type Outcome } from '../contract/failure.ts';
import type { BuildRequest, BuildResult } from '../production/build-protocol.ts';
import { freeBytes } from '../store/capacity.ts';
import { makeFolders } from '../store/directories.ts';
import type { CreatedDomain, Domain } from '../store/domain.ts';
import { domainFile } from '../store/paths.ts';
import { buildArtifact, type BuildWatch } from './building.ts';
import { defaultPaths, type Environment } from './default-paths.ts';
import { makeSampleCheckpoint, type SampleCheckpoint } from './sample-checkpoint.ts';
import { createStore, openStore, storeOutcome } from './stores.ts';

export interface Sample {
  readonly checkpoint: SampleCheckpoint;
  readonly store: CreatedDomain;
  readonly build: BuildResult;
  readonly leftBehind: readonly string[] | null;
}

export const defaultSampleBytes = 64 * 1024 ** 2;

/** The checkpoint's own names: its identity is the same wherever it lies. */
const sampleModel = { modelId: 'weightroom/sample', revision: '1', representation: 'bf16' } as const;

export interface SampleMaterials {
  readonly checkpoint: SampleCheckpoint;
  readonly store: CreatedDomain;
  /** What makes the one from the other. */
  readonly request: Omit<BuildRequest, 'domain'> & { readonly representation: 'bf16' };
}

/** Makes or finds the checkpoint and the store. Throws the signal's reason when it fires. */
export async function prepareSample(
  env: Environment,
  sizeBytes: number,
  signal: AbortSignal,
): Promise<Outcome<SampleMaterials>> {
  const { store: root, samples } = defaultPaths(env);
  const store = await sampleStore(root, env);
  if (!store.ok) return store;
  const room = roomFor(sizeBytes, root);
  if (room !== null) return failed(room);
  const making = await storeOutcome(
    'the sample checkpoint cannot be written',
    async () => await makeSampleCheckpoint(samples, sizeBytes, signal),
  );
  if (!making.ok) return making;
  const checkpoint = making.value;
  const request = { ...sampleModel, checkpoint: checkpoint.path };
  return succeeded({ checkpoint, store: store.value, request });
}

/** Throws the signal's reason when it fires before the build starts; from then on the result says so. */
export async function runSample(
  env: Environment,
  sizeBytes: number,
  watch: BuildWatch,
): Promise<Outcome<Sample>> {
  watch.onProgress({ ...nothingCounted, phase: 'making a checkpoint' });
  const prepared = await prepareSample(env, sizeBytes, watch.signal);
  if (!prepared.ok) return prepared;
  const { checkpoint, store, request } = prepared.value;
  const { result, leftBehind } = await buildArtifact(store.domain, request, watch);
  return succeeded({ checkpoint, store, build: result, leftBehind });
}

const maxSampleBytes = 64 * 1024 ** 3;

/** Checkpoint and artifact take at most this much twice; a sample must not be what fills somebody's disk. */
function roomFor(sizeBytes: number, root: string): Failure | null {
  if (sizeBytes > maxSampleBytes) {
    return failure(
      'configuration',
      'invalid_config',
      `${formatBytes(sizeBytes)} is too much for a sample: ask for ${formatBytes(maxSampleBytes)} at most.`,
    );
  }
  const free = freeBytes(root);
  if (2 * sizeBytes <= free) return null;
  return failure(
    'capacity',
    'insufficient_capacity',
    `a sample of ${formatBytes(sizeBytes)} and what is built from it need up to ${formatBytes(2 * sizeBytes)}, and ${formatBytes(free)} are free. Ask for a smaller one with --size.`,
    { retryable: true, details: { free_bytes: free, needed_bytes: 2 * sizeBytes } },
  );
}

const nothingCounted = { doneBytes: 0, totalBytes: 0, bytesPerSecond: null, secondsLeft: null };

/** The store in the default place with the policy that it has, or a new serialized one. */
async function sampleStore(root: string, env: Environment): Promise<Outcome<CreatedDomain>> {
  if (existsSync(join(root, domainFile))) return existing(await openStore(root));
  const limit = await storeOutcome('the data folder cannot be made', async () => {
    makeFolders(dirname(root), 0o700);
    return defaultLimit(dirname(root));
  });
  if (!limit.ok) return limit;
  const capacity = { maxStoreBytes: limit.value };
  const created = await createStore({ root, admission: 'serialized', capacity }, env);
  // Another run may have made it in this moment, with a limit of its own.
  return created.ok || !existsSync(join(root, domainFile)) ? created : existing(await openStore(root));
}

function existing(opened: Outcome<Domain>): Outcome<CreatedDomain> {
  return opened.ok ? succeeded({ domain: opened.value, existing: true }) : opened;
}

const gib = 1024 ** 3;

/** Four fifths of what is free now, in whole GiB: a limit reserves nothing, but it stays for ever. */
function defaultLimit(path: string): number {
  return Math.max(1, Math.floor((freeBytes(path) * 0.8) / gib)) * gib;
}
