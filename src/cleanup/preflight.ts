/**
 * What must be true before the first deletion: the plan is fresh and about this very store, the store's file
 * system can lock, its directories can be written, and each entry can be removed whole. What can be known before
 * is never found out half-way.
 */
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { native, isSystemError } from '#native';
import { failure, FailureError, type Failure } from '../contract/failure.ts';
import { withDirectories, type DomainDirectories } from '../store/directories.ts';
import { openDomain, type Domain } from '../store/domain.ts';
import { reasonOf } from '../store/faults.ts';
import { domainFile } from '../store/paths.ts';
import { pause } from '../store/turns.ts';
import { planLifetimeMs, type CleanupPlan, type PlannedEntry } from './plan.ts';
import { survey, surveyorOf } from './survey.ts';

/** Throws FailureError for a plan that is too old, or from the future of a clock that was put back. */
export function requireFresh({ madeAtMs }: CleanupPlan, nowMs: number): void {
  const ageMs = nowMs - madeAtMs;
  if (ageMs >= 0 && ageMs <= planLifetimeMs) return;
  throw refusal(
    ageMs < 0
      ? 'this plan was made later than now: the clock was put back. Nothing was removed; make a new plan.'
      : `this plan is ${Math.round(ageMs / 60_000)} minutes old, and one is good for ${planLifetimeMs / 60_000}. Nothing was removed; make a new plan.`,
    { age_ms: ageMs },
  );
}

/** The store that the plan was made for, opened anew. Throws FailureError where it is another one or can't be cleaned. */
export async function openPlanned({ domain: planned }: CleanupPlan): Promise<Domain> {
  const opened = await openDomain(planned.root);
  if (!opened.ok) throw new FailureError(opened.failure);
  const domain = opened.value;
  try {
    await withDirectories(domain.root, (directories) => {
      const { dev, ino } = native.fstat(directories.root);
      const isSame =
        domain.uuid === planned.uuid && String(dev) === planned.device && String(ino) === planned.inode;
      if (!isSame) {
        throw refusal(
          `${planned.root} is not the store any more that the plan was made for. Nothing was removed; make a new plan.`,
        );
      }
      requireLocking(directories, domain);
      requireWritable(domain);
    });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw refusal(`the store ${domain.root} cannot be looked at: ${reasonOf(error)}`, {}, true);
  }
  return domain;
}

/**
 * A shared lock on a document that nobody else locks, for an instant: it disturbs nobody. Without locks a worker
 * that uses an artifact could not be told from none, so nothing may be deleted.
 */
function requireLocking({ root }: DomainDirectories, domain: Domain): void {
  const fd = native.openat(root, domainFile, constants.O_RDONLY);
  try {
    if (native.flockTry(fd, false)) native.flockRelease(fd);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw refusal(
      `the file system of ${domain.root} cannot lock (${error.message}), so nobody can tell what is in use. Nothing was removed.`,
      { errno: error.code },
    );
  } finally {
    native.close(fd);
  }
}

/** Every removal passes through these, whatever its entry. */
function requireWritable({ root }: Domain): void {
  for (const name of ['locks', 'artifacts', 'quarantine', 'tmp', 'deny']) {
    try {
      accessSync(join(root, name), constants.W_OK | constants.X_OK);
    } catch (error) {
      if (!isSystemError(error)) throw error;
      throw refusal(
        `${join(root, name)} cannot be written: ${reasonOf(error)}. Nothing was removed; its owner can open it with chmod 700.`,
        { errno: error.code },
      );
    }
  }
}

/** Entries that this user can't remove, by id, with the reason. Nothing of them is touched then. */
export async function unremovable(
  domain: Domain,
  entries: readonly PlannedEntry[],
): Promise<ReadonlyMap<string, Failure>> {
  const found = new Map<string, Failure>();
  const surveyor = surveyorOf(domain.root);
  await withDirectories(domain.root, async (directories) => {
    for (const { id, place, name } of entries) {
      await pause();
      const problem = problemOf(() => survey(surveyor, directories[place], place, name)?.problem ?? null);
      if (problem !== null) found.set(id, notRemovable(problem));
    }
  });
  return found;
}

function problemOf(look: () => string | null): string | null {
  try {
    return look();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return reasonOf(error);
  }
}

export function notRemovable(problem: string): Failure {
  return failure('lifecycle', 'quarantine_failed', `${problem}. It was left as it is.`);
}

export function refusal(
  message: string,
  details: Readonly<Record<string, string | number>> = {},
  retryable = false,
): FailureError {
  return new FailureError(failure('lifecycle', 'quarantine_failed', message, { retryable, details }));
}
