/**
 * Doing what a plan says, and nothing else. Each entry is taken by itself: build lock, then artifact lock, neither
 * waited for; then it is looked at again, and goes only if it is exactly what the plan saw. What is used, was
 * changed or can't be removed stays and is told.
 *
 * It may be cancelled between two entries, and killed anywhere: what a removal leaves half done is invisible to
 * readers and in the next plan. No lock is held between entries.
 * Source: host-weight store specification, sections 2, 6 and 7.
 */
import { isSystemError } from '#native';
import { failure, outcomeOf, type Failure, type Outcome } from '../contract/failure.ts';
import { freeBytes } from '../store/capacity.ts';
import { removeEntry } from '../store/cleanup.ts';
import { childExists, statChild, type DomainDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import { denyFile } from '../store/paths.ts';
import { turn } from '../store/turns.ts';
import type { CleanupGroup } from './groups.ts';
import { idleSinceMs, type UseHistory } from './history.ts';
import { planLifetimeMs, type CleanupPlan, type PlannedEntry } from './plan.ts';
import { notRemovable, openPlanned, refusal, requireFresh, unremovable } from './preflight.ts';
import { isSame, signatureOf, type Signature } from './signature.ts';
import { survey, surveyorOf, type Survey } from './survey.ts';

/**
 * `gone`: somebody else had removed it. `changed`: it is not any more what the plan saw. `in-use`: built or leased
 * now. `refused`: this user can't remove it, and nothing of it was touched. `failed`: an error came in between.
 */
export const entryStatuses = ['removed', 'gone', 'changed', 'in-use', 'refused', 'failed'] as const;
export type EntryStatus = (typeof entryStatuses)[number];

export interface EntryResult {
  readonly id: string;
  readonly group: CleanupGroup;
  readonly key: string;
  readonly status: EntryStatus;
  /** Sum of st_size of what went; 0 where nothing did. */
  readonly removedBytes: number;
  /** Allocated bytes of what went that had no link elsewhere. */
  readonly unlinkedBytes: number;
  /** Null for `removed` and `gone`. */
  readonly failure: Failure | null;
}

export interface CleanupSummary {
  readonly planId: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly counts: Readonly<Record<EntryStatus, number>>;
  readonly removedBytes: number;
  readonly unlinkedBytes: number;
  /**
   * By how much the file system's free space grew. Less than what was unlinked where extents are shared, and
   * negative where others wrote more meanwhile; null where it could not be asked.
   */
  readonly gainedBytes: number | null;
  /** Cancelled before its end. */
  readonly isCancelled: boolean;
  /** Entries that were not looked at any more. */
  readonly entriesLeft: number;
}

export type CleanupEvent =
  | { readonly type: 'entry'; readonly done: number; readonly total: number; readonly result: EntryResult }
  | { readonly type: 'summary'; readonly summary: CleanupSummary };

export type CleanupRun = AsyncGenerator<CleanupEvent, void, void>;

export interface ApplyOptions {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Looked at between two entries. */
  readonly signal?: AbortSignal | undefined;
  /** Asked again for what is called unused; null trusts the plan. */
  readonly history: UseHistory | null;
  /** Of a path's file system. */
  readonly freeBytesOf?: (path: string) => number;
}

/** Applied by this process, with when: each goes when its plan would be too old anyway. */
const applied = new Map<string, number>();

/**
 * The failure says why the plan is refused as a whole; nothing was touched then. Work is done only as the run is
 * read; it ends with the summary. Leaving it early is cancelling it.
 *
 * A process applies a plan once. Another one that got hold of it finds each entry gone or changed.
 */
export function apply(plan: CleanupPlan, options: ApplyOptions): Promise<Outcome<CleanupRun>> {
  return outcomeOf(async () => {
    requireFresh(plan, options.now());
    claim(plan);
    try {
      const domain = await openPlanned(plan);
      return run(domain, plan, await unremovable(domain, plan.entries), options);
    } catch (error) {
      applied.delete(plan.id);
      if (!isSystemError(error)) throw error;
      throw refusal(`the store ${plan.domain.root} cannot be looked at: ${error.message}`, {}, true);
    }
  });
}

function claim({ id, madeAtMs }: CleanupPlan): void {
  for (const [earlier, atMs] of applied) if (madeAtMs - atMs > planLifetimeMs) applied.delete(earlier);
  if (applied.has(id)) throw refusal('this plan was applied already. Make a new one to see what is left.');
  applied.set(id, madeAtMs);
}

async function* run(
  domain: Domain,
  { id: planId, entries }: CleanupPlan,
  refused: ReadonlyMap<string, Failure>,
  options: ApplyOptions,
): CleanupRun {
  const { now, signal, freeBytesOf = freeBytes } = options;
  const startedAtMs = now();
  const freeBefore = quietly(() => freeBytesOf(domain.root));
  const counts: Record<EntryStatus, number> = {
    removed: 0,
    gone: 0,
    changed: 0,
    'in-use': 0,
    refused: 0,
    failed: 0,
  };
  let removedBytes = 0;
  let unlinkedBytes = 0;
  let done = 0;
  // Those that are refused come first: known before anything is deleted, and told before.
  for (const entry of entries.toSorted((a, b) => Number(refused.has(b.id)) - Number(refused.has(a.id)))) {
    if (signal?.aborted === true) break;
    const why = refused.get(entry.id);
    const result =
      why === undefined ? await removeOne(domain, entry, options) : resultOf(entry, 'refused', null, why);
    done += 1;
    counts[result.status] += 1;
    removedBytes += result.removedBytes;
    unlinkedBytes += result.unlinkedBytes;
    yield { type: 'entry', done, total: entries.length, result };
    await turn();
  }
  const freeAfter = quietly(() => freeBytesOf(domain.root));
  const summary: CleanupSummary = {
    planId,
    startedAtMs,
    endedAtMs: now(),
    counts,
    removedBytes,
    unlinkedBytes,
    gainedBytes: freeBefore === null || freeAfter === null ? null : freeAfter - freeBefore,
    isCancelled: done < entries.length,
    entriesLeft: entries.length - done,
  };
  yield { type: 'summary', summary };
}

/** What the last look under the locks found. */
type Verdict =
  | {
      readonly status: 'same';
      readonly seen: Survey;
      readonly markerBytes: number;
      readonly markerAllocated: number;
    }
  | { readonly status: 'gone' }
  | { readonly status: 'changed' | 'refused'; readonly failure: Failure };

async function removeOne(domain: Domain, entry: PlannedEntry, options: ApplyOptions): Promise<EntryResult> {
  let verdict: Verdict | null = null;
  const outcome = await removeEntry(domain, entry, (directories) => {
    verdict = lookAgain(domain, entry, directories, options);
    return verdict.status === 'same';
  });
  const found = verdict as Verdict | null;
  if (!outcome.ok) return resultOf(entry, statusOf(outcome.failure), null, outcome.failure);
  if (found === null || found.status === 'gone') return resultOf(entry, 'gone', null, null);
  if (found.status === 'same') return resultOf(entry, 'removed', found, null);
  return resultOf(entry, found.status, null, found.failure);
}

function statusOf({ code }: Failure): EntryStatus {
  return code === 'active_lease' || code === 'active_build_timeout' ? 'in-use' : 'failed';
}

function resultOf(
  { id, group, key }: PlannedEntry,
  status: EntryStatus,
  removed: Extract<Verdict, { status: 'same' }> | null,
  why: Failure | null,
): EntryResult {
  return {
    id,
    group,
    key,
    status,
    removedBytes: removed === null ? 0 : removed.seen.bytes + removed.markerBytes,
    unlinkedBytes: removed === null ? 0 : removed.seen.freedBytes + removed.markerAllocated,
    failure: why,
  };
}

function lookAgain(
  domain: Domain,
  entry: PlannedEntry,
  directories: DomainDirectories,
  options: ApplyOptions,
): Verdict {
  const { place, name, key, group } = entry;
  const seen = survey(surveyorOf(domain.root), directories[place], place, name);
  if (seen === null) return { status: 'gone' };
  const marker = place === 'artifacts' ? statChild(directories.deny, denyFile(key)) : null;
  const markerBytes = marker?.sizeBytes ?? 0;
  const isAsSeen =
    isSame(signatureOf(seen.stat), entry.signature) &&
    seen.bytes + markerBytes === entry.bytes &&
    seen.files === entry.files &&
    isSameMarker(marker === null ? null : signatureOf(marker), entry.marker);
  if (!isAsSeen) return changed(`${entry.id} has changed since the plan was made`);
  if (seen.problem !== null) return { status: 'refused', failure: notRemovable(seen.problem) };
  if (group === 'stray-markers' && childExists(directories.artifacts, key)) {
    return changed(`${entry.id} stands against an artifact again`);
  }
  const lost = entry.restsOn.find((newer) => !isStillServed(directories, newer));
  if (lost !== undefined)
    return changed(`artifact ${lost.key.slice(0, 12)}, which is newer, changed or went`);
  if (group === 'unused' && wasUsedSince(domain, entry, options.history)) {
    return changed(`${entry.id} was used since the plan was made`);
  }
  return { status: 'same', seen, markerBytes, markerAllocated: marker?.allocatedBytes ?? 0 };
}

function changed(what: string): Verdict {
  const message = `${what}. It was left as it is; make a new plan.`;
  return {
    status: 'changed',
    failure: failure('lifecycle', 'quarantine_failed', message, { retryable: true }),
  };
}

function isSameMarker(found: Signature | null, planned: Signature | null): boolean {
  return found === null || planned === null ? found === planned : isSame(found, planned);
}

function isStillServed(
  { artifacts, deny }: DomainDirectories,
  { key, signature }: PlannedEntry['restsOn'][number],
): boolean {
  const stat = statChild(artifacts, key);
  return stat !== null && isSame(signatureOf(stat), signature) && !childExists(deny, denyFile(key));
}

/** A lease leaves no trace on the disk, so the history is asked again. */
function wasUsedSince(
  { uuid }: Domain,
  { key, signature, idleSinceMs: plannedMs }: PlannedEntry,
  history: UseHistory | null,
): boolean {
  if (history === null || plannedMs === null) return false;
  const sinceMs = idleSinceMs(history, uuid, key, Number(BigInt(signature.mtimeNs) / 1_000_000n));
  return sinceMs === null || sinceMs > plannedMs;
}

function quietly(ask: () => number): number | null {
  try {
    return ask();
  } catch {
    return null;
  }
}
