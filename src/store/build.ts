/**
 * get-or-build: a hit passes freely; a miss is built by one producer at a time per key and, in a serialized
 * domain, per domain. Locks are taken in the order of lock.ts and released after every outcome.
 * Source: host-weight store specification, section 6.
 */
import { join } from 'node:path';
import { native, isSystemError, type Progress } from '#native';
import { failure, FailureError, type Failure } from '../contract/failure.ts';
import { checkCapacity } from './capacity.ts';
import type { Deadline } from './clock.ts';
import { openDirectory, namesOfKey, withDirectories, type DomainDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { isOutOfSpace, lockFailure, lockTimeoutFailure, reasonOf, storageFailure } from './faults.ts';
import type { ArtifactIdentity } from './identity.ts';
import type { Lease, ValidationLevel } from './lease.ts';
import { FileLock, LockTimeout } from './lock.ts';
import { lookup, type LookupResult } from './lookup.ts';
import type { Manifest } from './manifest.ts';
import { finishInterruptedMoves, quarantineEntry, removeDenyMarker, removeTombstones } from './move.ts';
import { admissionLock, artifactLock, buildLock, denyFile, modes, stagingName } from './paths.ts';
import type { WeightProducer } from './producer.ts';
import { discardStaging, publish } from './publication.ts';
import { StagingWriter } from './writer.ts';

export type StoreResult =
  | { readonly status: 'hit' | 'built' | 'joined'; readonly lease: Lease }
  | { readonly status: 'miss' }
  | { readonly status: 'invalid' | 'timeout' | 'failed'; readonly failure: Failure };

export type BuildPhase =
  | 'looking-up'
  | 'waiting-for-admission'
  | 'waiting-for-build-lock'
  | 'preparing'
  | 'producing'
  | 'hashing'
  | 'syncing'
  | 'publishing';

export interface CountedWork {
  readonly progress: Progress;
  readonly totalBytes: number;
}

export interface BuildOptions {
  readonly validation?: ValidationLevel;
  /** Bounds every wait for a lock, and nothing else: a running producer is not stopped by it. */
  readonly deadline: Deadline;
  /** Fires: what was staged is removed, locks are released, and the signal's reason is thrown. */
  readonly signal?: AbortSignal | undefined;
  /** With how far the phase has come, where that is counted. */
  readonly onPhase?: ((phase: BuildPhase, work?: CountedWork) => void) | undefined;
  /** The artifact is there, what made it is forgotten, and it is about to be looked up. */
  readonly onCommitted?: (() => void) | undefined;
  readonly warn?: ((message: string) => void) | undefined;
}

interface Build {
  readonly domain: Domain;
  readonly identity: ArtifactIdentity;
  readonly producer: WeightProducer;
  readonly options: BuildOptions;
  readonly signal: AbortSignal;
  /** Whether the key's artifact is authoritative, whatever comes after that. */
  committed: boolean;
}

export async function getOrBuild(
  domain: Domain,
  identity: ArtifactIdentity,
  producer: WeightProducer,
  options: BuildOptions,
): Promise<StoreResult> {
  const refused = checkProducer(identity, producer);
  if (refused !== null) return failedWith(refused);
  const build: Build = {
    domain,
    identity,
    producer,
    options,
    signal: options.signal ?? new AbortController().signal,
    committed: false,
  };

  enter(build, 'looking-up');
  const first = await look(build);
  if (first.status !== 'miss' && first.status !== 'invalid') return first;
  if (domain.admission === 'concurrent') return await buildUnderKeyLock(build);

  enter(build, 'waiting-for-admission');
  const admission = await take(build, admissionLock);
  if (!(admission instanceof FileLock)) return admission;
  try {
    return await buildUnderKeyLock(build);
  } finally {
    release(admission, (error) => warn(build, `releasing build admission failed: ${error.message}`));
  }
}

function checkProducer(identity: ArtifactIdentity, producer: WeightProducer): Failure | null {
  if (producer.coordinationScope !== 'single_process') {
    return failure(
      'production',
      'producer_unsupported',
      `a producer that coordinates as ${producer.coordinationScope} is not supported`,
    );
  }
  if (producer.outputs.length !== 1 || producer.outputs[0]?.key !== identity.key) {
    return failure(
      'production',
      'producer_unavailable',
      'the producer does not declare exactly the identity asked for',
    );
  }
  return null;
}

function failedWith(value: Failure): StoreResult {
  return { status: 'failed', failure: value };
}

function enter(build: Build, phase: BuildPhase, work?: CountedWork): void {
  build.signal.throwIfAborted();
  build.options.onPhase?.(phase, work);
}

function warn(build: Build, message: string): void {
  build.options.warn?.(message);
}

function look({ domain, identity, options, signal }: Build): Promise<LookupResult> {
  return lookup(domain, identity, { ...options, signal });
}

async function take(build: Build, name: string): Promise<FileLock | StoreResult> {
  try {
    return await FileLock.exclusive(join(build.domain.root, 'locks', name), {
      deadline: build.options.deadline,
      signal: build.signal,
    });
  } catch (error) {
    build.signal.throwIfAborted();
    return {
      status: error instanceof LockTimeout ? 'timeout' : 'failed',
      failure: lockFailure(error, 'production'),
    };
  }
}

function release(lock: FileLock, onError: (error: Error) => void): void {
  try {
    lock.release();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    onError(error);
  }
}

async function buildUnderKeyLock(build: Build): Promise<StoreResult> {
  enter(build, 'waiting-for-build-lock');
  const lock = await take(build, buildLock(build.identity.key));
  if (!(lock instanceof FileLock)) return lock;
  let result: StoreResult;
  let releaseFailure: Failure | null = null;
  try {
    result = await buildLocked(build);
  } finally {
    release(lock, (error) => {
      // Once the artifact is committed its outcome stands; before, the error is what there is to tell.
      if (build.committed) warn(build, `releasing the build lock failed: ${error.message}`);
      else
        releaseFailure = failure(
          'domain',
          'domain_unavailable',
          `releasing the build lock failed: ${error.message}`,
          { retryable: true },
        );
    });
  }
  return releaseFailure === null ? result : failedWith(releaseFailure);
}

async function buildLocked(build: Build): Promise<StoreResult> {
  const { options } = build;
  const again = await look(build);
  if (again.status === 'hit') {
    build.committed = true;
    return { status: 'joined', lease: again.lease };
  }
  if (again.status === 'timeout' || again.status === 'failed') return again;
  let refused: StoreResult | null;
  try {
    refused = await withDirectories(build.domain.root, (directories) =>
      produceAndPublish(build, directories),
    );
  } catch (error) {
    build.signal.throwIfAborted();
    if (!isSystemError(error)) throw error;
    return failedWith(storageFailure(error, 'the store cannot be opened'));
  }
  if (refused !== null) return refused;
  build.committed = true;
  options.onCommitted?.();
  // What is committed is returned: a cancel that comes this late changes nothing.
  const opened = await lookup(build.domain, build.identity, { ...build.options, signal: undefined });
  return opened.status === 'hit' ? { status: 'built', lease: opened.lease } : opened;
}

/**
 * Null once the artifact is committed. A function of its own, so that all it had in memory for a hundred
 * thousand tensors can go before they are looked up.
 */
async function produceAndPublish(build: Build, directories: DomainDirectories): Promise<StoreResult | null> {
  enter(build, 'preparing');
  const unprepared = await prepare(build, directories);
  if (unprepared !== null) return unprepared;
  const staged = await stage(build, directories);
  if ('failure' in staged) return failedWith(staged.failure);
  enterWithoutCancel(build, 'publishing');
  const unpublished = await publish({
    domain: build.domain,
    directories,
    ...staged,
    warn: (message) => warn(build, message),
  });
  return unpublished === null ? null : failedWith(unpublished);
}

function enterWithoutCancel(build: Build, phase: BuildPhase): void {
  build.options.onPhase?.(phase);
}

/** Clears the way under the exclusive artifact lock. Dead builds of other keys stay, and count. */
async function prepare(build: Build, directories: DomainDirectories): Promise<StoreResult | null> {
  const { domain, identity, options, signal } = build;
  const { key } = identity;
  try {
    const lock = await FileLock.exclusive(join(domain.root, 'locks', artifactLock(key)), {
      deadline: options.deadline,
      signal,
    });
    try {
      await finishInterruptedMoves(directories, key);
      await quarantineEntry(directories, key, 'validation_failure');
      await removeTombstones(directories, key);
      await removeDenyMarker(directories, denyFile(key));
      for (const name of namesOfKey(directories.tmp, key)) await native.removeTree(directories.tmp, name);
      await native.fsync(directories.tmp);
    } finally {
      lock.release();
    }
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof LockTimeout)
      return { status: 'timeout', failure: lockTimeoutFailure(error, 'production') };
    if (!isSystemError(error)) throw error;
    return failedWith(
      failure(
        'lifecycle',
        'quarantine_failed',
        `what is left of artifact ${key} could not be cleared away for a rebuild: ${reasonOf(error)}`,
        {
          retryable: true,
        },
      ),
    );
  }
}

type Staged = { readonly stagingName: string; readonly manifest: Manifest } | { readonly failure: Failure };

/** Produces into a staging directory that is complete, synced and marked, or removes it again. */
async function stage(build: Build, directories: DomainDirectories): Promise<Staged> {
  const { domain, identity, producer, signal } = build;
  const name = stagingName(identity.key);
  const progress: { writer: StagingWriter | null; produced: boolean } = { writer: null, produced: false };
  try {
    enter(build, 'producing');
    native.mkdirat(directories.tmp, name, modes.directory);
    const staging = openDirectory(directories.tmp, name);
    try {
      const writer = new StagingWriter(staging, (projected, additional) =>
        checkCapacity(domain, projected, additional),
      );
      progress.writer = writer;
      const metadata = await producer.produce(writer, signal);
      progress.produced = true;
      enter(build, 'hashing', writer.hashing);
      await writer.hashed(signal);
      enter(build, 'syncing');
      const manifest = await writer.finalize(identity, metadata);
      await checkCapacity(domain, await native.treeBytes(staging), 0);
      native.fchmod(staging, modes.staging | modes.invalidated);
      await native.fsync(staging);
      signal.throwIfAborted();
      return { stagingName: name, manifest };
    } finally {
      await progress.writer?.abort();
      native.close(staging);
    }
  } catch (error) {
    await discardStaging(domain, directories, identity.key, name);
    signal.throwIfAborted();
    return { failure: productionFailure(error, progress.writer !== null && !progress.produced) };
  }
}

function productionFailure(error: unknown, whileProducing: boolean): Failure {
  if (error instanceof FailureError) return error.failure;
  if (isSystemError(error)) {
    const what = whileProducing ? 'the producer failed' : 'the artifact could not be written';
    if (isOutOfSpace(error) || !whileProducing) return storageFailure(error, what);
    return failure('production', 'producer_failed', `${what}: ${reasonOf(error)}`, {
      details: { errno: error.code },
    });
  }
  const message = error instanceof Error ? error.message : String(error);
  return failure('production', 'producer_failed', `the producer failed: ${message}`);
}
