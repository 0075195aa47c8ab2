/**
 * Lookup: from an identity to a lease, or to why there is none. An artifact that fails a check is denied on
 * disk before the lock goes, so that no weaker check can serve it later.
 * Source: host-weight store specification, section 5.
 */
import { constants } from 'node:fs';
import { join } from 'node:path';
import { native, isSystemError, newProgress, type Progress, type SystemError } from '#native';
import { failure, FailureError, type Detail, type Failure } from '../contract/failure.ts';
import { canonicalBytes } from './canonical-json.ts';
import { monotonicMs, type Deadline } from './clock.ts';
import {
  childExists,
  openDirectory,
  statChild,
  withDirectories,
  type DomainDirectories,
} from './directories.ts';
import type { Domain } from './domain.ts';
import { errorDetail, isStructural, lockFailure, storageFailure } from './faults.ts';
import type { ArtifactIdentity } from './identity.ts';
import { Lease, type ValidationLevel } from './lease.ts';
import { FileLock, LockTimeout, withoutWaiting } from './lock.ts';
import { manifestSteps } from './manifest.ts';
import { readDocumentInTurns } from './metadata-file.ts';
import { markInvalidated, quarantineEntry } from './move.ts';
import { artifactLock, denyFile, manifestFile, modes } from './paths.ts';
import { inTurns } from './turns.ts';
import { validateEntry, type ValidatedArtifact } from './validation.ts';

export type LookupResult =
  | { readonly status: 'hit'; readonly lease: Lease }
  | { readonly status: 'miss' }
  | { readonly status: 'invalid' | 'timeout' | 'failed'; readonly failure: Failure };

export interface LookupOptions {
  readonly validation?: ValidationLevel;
  /** For the lock; one attempt is made even when it has passed. Null waits for ever. */
  readonly deadline: Deadline;
  readonly signal?: AbortSignal | undefined;
  /** Counts hashed bytes at the full level; cancels the hashing. */
  readonly progress?: Progress | undefined;
}

export async function lookup(
  domain: Domain,
  identity: ArtifactIdentity,
  options: LookupOptions,
): Promise<LookupResult> {
  return await find(domain, identity, options, true);
}

/** The same checks as `lookup` at once (contention is a `timeout`), and nothing is written. */
export async function inspectArtifact(
  domain: Domain,
  identity: ArtifactIdentity,
  options: Omit<LookupOptions, 'deadline'> = {},
): Promise<LookupResult> {
  return await find(domain, identity, { ...options, deadline: monotonicMs() }, false);
}

/**
 * Inspection of an artifact of which only the key is known: it is held against its own identity, which must
 * have that key.
 */
export async function inspectKey(
  domain: Domain,
  key: string,
  options: Omit<LookupOptions, 'deadline'> = {},
): Promise<LookupResult> {
  let identity: ArtifactIdentity;
  try {
    const found = await withDirectories(domain.root, async ({ artifacts }) => {
      if (!childExists(artifacts, key)) return null;
      const entry = openDirectory(artifacts, key);
      try {
        const document = await readDocumentInTurns(entry, manifestFile);
        return (await inTurns(manifestSteps(document))).identity;
      } finally {
        native.close(entry);
      }
    });
    if (found === null) return { status: 'miss' };
    identity = found;
  } catch (error) {
    // It may have been removed while it was read without a lock.
    if (isSystemError(error) && error.code === 'ENOENT' && !(await isThere(domain, key)))
      return { status: 'miss' };
    return { ...classify(error, key) };
  }
  if (identity.key !== key) {
    return {
      status: 'invalid',
      failure: failure(
        'validation',
        'manifest_incompatible',
        `artifact ${key} holds the identity of ${identity.key}`,
      ),
    };
  }
  return await inspectArtifact(domain, identity, options);
}

async function isThere(domain: Domain, key: string): Promise<boolean> {
  return await withDirectories(domain.root, ({ artifacts }) => childExists(artifacts, key));
}

async function find(
  domain: Domain,
  identity: ArtifactIdentity,
  { validation = 'manifest_and_metadata', deadline, signal, progress }: LookupOptions,
  recordInvalid: boolean,
): Promise<LookupResult> {
  let lock: FileLock;
  try {
    lock = await FileLock.shared(join(domain.root, 'locks', artifactLock(identity.key)), {
      deadline,
      signal,
    });
  } catch (error) {
    signal?.throwIfAborted();
    const reason = lockFailure(error, 'lookup');
    return { status: error instanceof LockTimeout ? 'timeout' : 'failed', failure: reason };
  }
  const counter = progress ?? newProgress();
  const stopHashing = (): void => void Atomics.store(counter, 1, 1n);
  signal?.addEventListener('abort', stopHashing);
  let result: LookupResult | null = null;
  let unreleased: SystemError | null = null;
  try {
    result = await findLocked(
      domain,
      identity,
      lock,
      { validation, deadline, signal, counter },
      recordInvalid,
    );
  } finally {
    signal?.removeEventListener('abort', stopHashing);
    if (result?.status !== 'hit') unreleased = releaseError(lock);
  }
  return unreleased === null
    ? result
    : { status: 'failed', failure: storageFailure(unreleased, 'cannot let go of a lock of the store') };
}

/** The lock has gone with its descriptor all the same; that something is wrong must still be told. */
function releaseError(lock: FileLock): SystemError | null {
  try {
    lock.release();
    return null;
  } catch (error) {
    if (isSystemError(error)) return error;
    throw error;
  }
}

interface Search extends Omit<LookupOptions, 'progress'> {
  readonly validation: ValidationLevel;
  readonly counter: Progress;
}

/** With the shared lock held. Only a hit keeps it, in its lease. */
async function findLocked(
  domain: Domain,
  identity: ArtifactIdentity,
  lock: FileLock,
  { validation, deadline, signal, counter }: Search,
  recordInvalid: boolean,
): Promise<LookupResult> {
  try {
    return await withDirectories(domain.root, async (directories): Promise<LookupResult> => {
      const state = entryState(directories, identity.key);
      if (state !== 'present') return state;
      try {
        const validated = await validateEntry(domain, directories.artifacts, identity, {
          level: validation,
          progress: counter,
        });
        const lease = await leaseUnlessDenied(validated, lock, directories);
        if (lease !== null) return { status: 'hit', lease };
        return invalid(
          failure('lookup', 'artifact_denied', `artifact ${identity.key} was denied while it was looked up`),
        );
      } catch (error) {
        signal?.throwIfAborted();
        const verdict = classify(error, identity.key);
        if (verdict.status === 'failed' || !recordInvalid) return verdict;
        return await deny(domain, directories, identity.key, verdict, lock, deadline);
      }
    });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return {
      status: 'failed',
      failure: storageFailure(error, `cannot look into the store for artifact ${identity.key}`),
    };
  }
}

function invalid(value: Failure): LookupResult {
  return { status: 'invalid', failure: value };
}

function entryState({ artifacts, deny: denied }: DomainDirectories, key: string): LookupResult | 'present' {
  if (!childExists(artifacts, key)) return { status: 'miss' };
  if (!childExists(denied, denyFile(key))) return 'present';
  return invalid(
    failure(
      'lookup',
      'artifact_denied',
      `artifact ${key} failed a check before and is denied until it is rebuilt or removed`,
    ),
  );
}

/** A stronger lookup may have refused the artifact since: then what this weaker one found does not count. */
async function leaseUnlessDenied(
  { manifest, payloads, regions, provenance }: ValidatedArtifact,
  lock: FileLock,
  { artifacts, deny: denied }: DomainDirectories,
): Promise<Lease | null> {
  const { key } = manifest.identity;
  try {
    const refused =
      childExists(denied, denyFile(key)) || (native.fstatat(artifacts, key).mode & modes.invalidated) !== 0;
    if (!refused) return new Lease(manifest, payloads, regions, provenance, lock);
  } catch (error) {
    for (const { fd } of payloads) native.close(fd);
    throw error;
  }
  for (const { fd } of payloads) native.close(fd);
  return null;
}

interface Verdict {
  readonly status: 'invalid' | 'failed';
  readonly failure: Failure;
}

/** Malformed is `invalid`; unreadable for the moment is `failed` and retryable. Bugs are rethrown. */
export function classify(error: unknown, key: string): Verdict {
  if (error instanceof FailureError) {
    const named = { ...error.failure, message: `artifact ${key}: ${error.failure.message}` };
    return { status: 'invalid', failure: error.failure.stage === 'validation' ? named : error.failure };
  }
  if (isStructural(error)) {
    return {
      status: 'invalid',
      failure: failure('validation', 'manifest_corrupt', `artifact ${key}: ${error.message}`),
    };
  }
  if (isSystemError(error)) {
    return { status: 'failed', failure: storageFailure(error, `cannot read or validate artifact ${key}`) };
  }
  throw error;
}

async function deny(
  domain: Domain,
  directories: DomainDirectories,
  key: string,
  verdict: Verdict,
  lock: FileLock,
  deadline: Deadline,
): Promise<LookupResult> {
  try {
    await writeDenyMarker(directories, key, verdict.failure);
    return verdict;
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return await contain(domain, directories, key, lock, deadline, error);
  }
}

async function writeDenyMarker(
  { deny: denied }: DomainDirectories,
  key: string,
  reason: Failure,
): Promise<void> {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY;
  let fd: number;
  try {
    fd = native.openat(denied, denyFile(key), flags, modes.file);
  } catch (error) {
    if (isSystemError(error) && error.code === 'EEXIST') return;
    throw error;
  }
  try {
    native.pwriteSync(
      fd,
      canonicalBytes({
        schema_version: 1,
        stage: reason.stage,
        reason: reason.code,
        message: reason.message,
      }),
      0,
    );
    await native.fsync(fd);
  } finally {
    native.close(fd);
  }
  await native.fsync(denied);
}

/** Without a deny marker the entry itself must say that it is not to be served, and then go. */
async function contain(
  domain: Domain,
  directories: DomainDirectories,
  key: string,
  lock: FileLock,
  deadline: Deadline,
  denyError: SystemError,
): Promise<LookupResult> {
  const containment: Record<string, Detail> = {};
  let marked: { dev: bigint; ino: bigint } | null = null;
  try {
    const entry = openDirectory(directories.artifacts, key);
    try {
      marked = native.fstat(entry);
      await markInvalidated(entry);
      containment['invalidation_marker'] = 'durable';
    } finally {
      native.close(entry);
    }
  } catch (error) {
    containment['invalidation_marker_error'] = errorDetail(error);
  }
  try {
    lock.release();
  } catch (error) {
    containment['shared_lock_release_error'] = errorDetail(error);
  }
  const wait = deadline === null ? withoutWaiting : { deadline };
  try {
    const exclusive = await FileLock.exclusive(join(domain.root, 'locks', artifactLock(key)), wait);
    try {
      containment['quarantine'] = await quarantineMarked(directories, key, marked);
    } catch (error) {
      containment['quarantine'] = 'failed';
      containment['quarantine_error'] = errorDetail(error);
    } finally {
      exclusive.release();
    }
  } catch (error) {
    containment['quarantine'] ??=
      error instanceof LockTimeout ? 'deferred_for_active_lease' : 'deferred_for_lock_error';
    containment['exclusive_lock_error'] = errorDetail(error);
  }
  return {
    status: 'failed',
    failure: storageFailure(denyError, `artifact ${key} is invalid and could not be denied`, { containment }),
  };
}

async function quarantineMarked(
  directories: DomainDirectories,
  key: string,
  marked: { dev: bigint; ino: bigint } | null,
): Promise<string> {
  const current = statChild(directories.artifacts, key);
  if (current === null) return 'already_absent';
  if (marked === null) return 'deferred_for_unverified_artifact';
  if (current.dev !== marked.dev || current.ino !== marked.ino) return 'already_replaced';
  await quarantineEntry(directories, key, 'validation_failure');
  return 'completed';
}
