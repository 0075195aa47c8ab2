/** What can go from a made-up store, as a host would plan it, and what comes of applying it. */
import {
  cleanupGroups,
  publishedGroups,
  type CleanupEvent,
  type CleanupGroup,
  type CleanupPlan,
  type KeptEntry,
  type PlannedEntry,
  type PlannedGroup,
  type PlanRequest,
} from '../../../src/contract/cleanup-schemas.ts';
import type { InventoryRow } from '../../../src/contract/domain-schemas.ts';
import { failure } from '../../../src/contract/failure.ts';
import { keyOf, minute } from './units.ts';

const places = { ready: 'artifacts', denied: 'deny', quarantined: 'quarantine', temporary: 'tmp' } as const;
const noHistory =
  'the disk does not record when an artifact was last used, and no history of leases is kept here';

function groupOf(row: InventoryRow, n: number): { group: CleanupGroup; reason: string } | null {
  switch (row.state) {
    case 'temporary':
      return { group: 'dead-builds', reason: 'left by a build that is gone: nobody holds its build lock' };
    case 'quarantined':
      return { group: 'quarantined', reason: `taken out of service (${row.reason ?? 'unknown'})` };
    case 'denied':
      return { group: 'stray-markers', reason: 'a deny marker whose artifact is gone' };
    case 'ready':
      if (!row.served)
        return { group: 'denied', reason: 'failed a check (checksum_mismatch) and is not served' };
      return n % 17 === 3
        ? {
            group: 'superseded',
            reason: `artifact ${keyOf(`artifact ${n + 1}`).slice(0, 12)} is newer and the same but for its revision (main) or producer version (2)`,
          }
        : null;
  }
}

const sum = (some: readonly { readonly bytes: number }[]): { entries: number; bytes: number } => ({
  entries: some.length,
  bytes: some.reduce((total, { bytes }) => total + bytes, 0),
});

const going = (some: readonly PlannedEntry[]): CleanupPlan['going'] => ({
  ...sum(some),
  freedBytes: some.reduce((total, { freedBytes }) => total + freedBytes, 0),
});

/** Every entry of a group; a host tells the first of them. */
export function planOf(
  root: string,
  rows: readonly InventoryRow[],
  { groups = cleanupGroups.filter((group) => !isPublished(group)), keepLatest = 1 }: Partial<PlanRequest>,
  revision: number,
): CleanupPlan {
  const found = rows.flatMap((row, n) => {
    const why = groupOf(row, n);
    return why === null ? [] : [{ row, n, ...why }];
  });
  const planned = cleanupGroups.map((group): PlannedGroup => {
    const isAskedFor = groups.includes(group);
    const fitting = found.filter((each) => each.group === group);
    const stays = (row: InventoryRow, n: number): boolean =>
      row.building || (isAskedFor && n % 29 === 5 && n > 200);
    const entries = fitting
      .filter(({ row, n }) => !stays(row, n))
      .map(({ row, reason }): PlannedEntry => {
        const { key, name, bytes, model, component } = row;
        const place = places[row.state];
        const freedBytes = bytes;
        const isRestorable = group === 'quarantined';
        return {
          id: `${place}/${name}`,
          place,
          name,
          key,
          reason,
          bytes,
          freedBytes,
          model,
          component,
          isRestorable,
        };
      });
    const kept = fitting
      .filter(({ row, n }) => stays(row, n))
      .map(({ row }): KeptEntry => {
        const id = `${places[row.state]}/${row.name}`;
        const { key, bytes } = row;
        return row.building
          ? {
              id,
              key,
              bytes,
              because: 'building',
              reason: 'is being built by process 41322 (node src/production/build-process.ts)',
            }
          : {
              id,
              key,
              bytes,
              because: 'leased',
              reason: 'is in use by process 39877 (python3 -m vllm serve Qwen/Qwen3-Omni-30B-A3B)',
            };
      });
    const unavailable = group === 'unused' ? noHistory : null;
    const isCounted = unavailable === null && (isAskedFor || group !== 'superseded');
    return {
      group,
      isAskedFor,
      fitting: isCounted ? sum(fitting.map(({ row }) => row)) : null,
      unavailable,
      going: going(isAskedFor ? entries : []),
      staying: sum(isAskedFor ? kept : []),
      entries: isAskedFor ? entries : [],
      kept: isAskedFor ? kept : [],
    };
  });
  const madeAtMs = Date.now();
  return {
    id: keyOf(`plan ${madeAtMs} ${groups.join()}`).slice(0, 32),
    root,
    madeAtMs,
    goodUntilMs: madeAtMs + 15 * minute,
    revision,
    unusedAfterMs: 30 * 24 * 60 * minute,
    keepLatest,
    going: going(planned.flatMap(({ entries }) => entries)),
    staying: sum(planned.flatMap(({ kept }) => kept)),
    groups: planned,
    unexplained: { entries: 2, bytes: 48_000 },
    storeBytes: sum(rows).bytes,
  };
}

function isPublished(group: CleanupGroup): boolean {
  return (publishedGroups as readonly CleanupGroup[]).includes(group);
}

/** All goes but one that is leased meanwhile and one that belongs to somebody else. */
export function* cleaningOf(plan: CleanupPlan): Generator<CleanupEvent> {
  const entries = plan.groups.flatMap((group) => group.entries);
  const counts = { removed: 0, gone: 0, changed: 0, 'in-use': 0, refused: 0, failed: 0 };
  let removedBytes = 0;
  for (const [n, { id, key, bytes }] of entries.entries()) {
    const status = n === 1 ? 'in-use' : n === 3 ? 'refused' : 'removed';
    const why = {
      'in-use': failure('lifecycle', 'active_lease', `artifact ${key.slice(0, 12)} is in use`, {
        retryable: true,
      }),
      refused: failure(
        'lifecycle',
        'quarantine_failed',
        'its folder belongs to grace (uid 1004) and may not be written. It was left as it is.',
      ),
      removed: null,
    }[status];
    counts[status] += 1;
    if (status === 'removed') removedBytes += bytes;
    const result = { id, key, status, removedBytes: status === 'removed' ? bytes : 0, failure: why } as const;
    yield { type: 'entry', done: n + 1, total: entries.length, result };
  }
  const summary = {
    planId: plan.id,
    startedAtMs: plan.madeAtMs,
    endedAtMs: plan.madeAtMs + 1500,
    counts,
    removedBytes,
    unlinkedBytes: removedBytes,
    gainedBytes: removedBytes,
    isCancelled: false,
    entriesLeft: 0,
  };
  yield { type: 'result', summary };
}
