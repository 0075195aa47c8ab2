/**
 * The locks of a key for whoever removes or restores: build lock before artifact lock, neither waited for, so
 * that no owner is ever waited for or interrupted. Who is in the way is named.
 * Source: host-weight store specification, sections 2 and 7.
 */
import { join } from 'node:path';
import { isSystemError } from '#native';
import { failure, FailureError, type Failure } from '../contract/failure.ts';
import { withDirectories, type DomainDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { reasonOf } from './faults.ts';
import { FileLock, LockTimeout, withoutWaiting } from './lock.ts';
import { holdersOfFile } from './lock-holders.ts';
import { artifactLock, buildLock } from './paths.ts';

/** Throws FailureError where either is held, or the work meets an error of the system. */
export async function underBothLocks<T>(
  domain: Domain,
  key: string,
  work: (directories: DomainDirectories) => Promise<T>,
): Promise<T> {
  return await underBuildLock(domain, key, 'removed', async (directories) =>
    underArtifactLock(domain, key, async () => await work(directories)),
  );
}

/** Keeps builders and cleaners of the key away, and no reader. `done` is what could not be, in a failure's words. */
export async function underBuildLock<T>(
  domain: Domain,
  key: string,
  done: 'removed' | 'restored',
  work: (directories: DomainDirectories) => Promise<T>,
): Promise<T> {
  try {
    const build = await takeNow(domain, buildLock(key), (holders) => activeBuild(key, holders));
    try {
      return await withDirectories(domain.root, work);
    } finally {
      build.release();
    }
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new FailureError(
      failure('lifecycle', 'quarantine_failed', `artifact ${key} could not be ${done}: ${reasonOf(error)}`, {
        retryable: true,
        details: { errno: error.code },
      }),
    );
  }
}

/** With the build lock held. */
export async function underArtifactLock<T>(domain: Domain, key: string, work: () => Promise<T>): Promise<T> {
  const artifact = await takeNow(domain, artifactLock(key), (holders) => activeLease(key, holders));
  try {
    return await work();
  } finally {
    artifact.release();
  }
}

async function takeNow(domain: Domain, name: string, held: (holders: string) => Failure): Promise<FileLock> {
  const path = join(domain.root, 'locks', name);
  try {
    return await FileLock.exclusive(path, withoutWaiting);
  } catch (error) {
    if (!(error instanceof LockTimeout)) throw error;
    const holders = holdersOfFile(path).map((holder) => `process ${holder.pid} (${holder.command})`);
    throw new FailureError(
      held(holders.length > 0 ? holders.join(', ') : 'a process that is not visible from here'),
    );
  }
}

function activeBuild(key: string, holders: string): Failure {
  return failure(
    'lifecycle',
    'active_build_timeout',
    `artifact ${key} is being built by ${holders}. Nothing was changed: try again when the build has ended.`,
    { retryable: true, details: { holders } },
  );
}

function activeLease(key: string, holders: string): Failure {
  return failure(
    'lifecycle',
    'active_lease',
    `artifact ${key} is in use by ${holders}. Nothing was changed: try again when it has let go.`,
    { retryable: true, details: { holders } },
  );
}
