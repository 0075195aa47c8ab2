/** A cleanup plan and what came of it, for people and for programs. */
import type { CleanupSummary, EntryResult } from '../cleanup/apply.ts';
import { defaultGroups } from '../cleanup/groups.ts';
import type { CleanupPlan, KeptEntry, PlannedEntry } from '../cleanup/plan.ts';
import type { Failure } from '../contract/failure.ts';
import { count, shortKey } from './documents.ts';
import { isoMoment } from './durations.ts';
import type { JsonDocument } from './json-document.ts';
import { formatSize } from './sizes.ts';
import { table } from './table.ts';

export function planDocument(plan: CleanupPlan): JsonDocument {
  return {
    root: plan.domain.root,
    plan_id: plan.id,
    made: isoMoment(BigInt(plan.madeAtMs) * 1_000_000n),
    groups: plan.groups.map(({ group, isAskedFor, entries, bytes, unavailable }) => ({
      group,
      asked_for: isAskedFor,
      entries,
      bytes,
      unavailable,
    })),
    entries: plan.entries.map(({ id, group, key, reason, bytes, allocatedBytes, freedBytes }) => ({
      id,
      group,
      key,
      reason,
      bytes,
      allocated_bytes: allocatedBytes,
      freed_bytes_at_most: freedBytes,
    })),
    kept: plan.kept.map(({ id, group, key, bytes, because, reason, holders }) => ({
      id,
      group,
      key,
      bytes,
      because,
      reason,
      holders,
    })),
    bytes: sum(plan.entries.map(({ bytes }) => bytes)),
    freed_bytes_at_most: sum(plan.entries.map(({ freedBytes }) => freedBytes)),
    other_bytes: sum(plan.other.map(({ bytes }) => bytes)),
    store_bytes: plan.storeBytes,
  };
}

export function runDocument(results: readonly EntryResult[], summary: CleanupSummary): JsonDocument {
  return {
    results: results.map(({ id, group, key, status, removedBytes, unlinkedBytes, failure }) => ({
      id,
      group,
      key,
      status,
      removed_bytes: removedBytes,
      unlinked_bytes: unlinkedBytes,
      failure,
    })),
    removed_bytes: summary.removedBytes,
    unlinked_bytes: summary.unlinkedBytes,
    filesystem_gained_bytes: summary.gainedBytes,
    entries_left: summary.entriesLeft,
    cancelled: summary.isCancelled,
  };
}

export function planText(plan: CleanupPlan): string {
  return [
    ...(plan.entries.length > 0 ? [entryTable(plan.entries), '', ...totals(plan)] : ['Nothing can go.']),
    ...keptText(plan.kept),
    ...publishedText(plan),
    ...(plan.entries.length > 0 ? ['Nothing was changed. Add --apply to remove what is listed.'] : []),
  ].join('\n');
}

export function runText(plan: CleanupPlan, results: readonly EntryResult[], summary: CleanupSummary): string {
  if (results.length === 0) return ['Nothing could go.', ...keptText(plan.kept)].join('\n');
  const columns = [
    { title: 'ENTRY' },
    { title: 'GROUP' },
    { title: 'RESULT' },
    { title: 'SIZE', align: 'right' },
  ] as const;
  const rows = results.map(({ id, group, status, removedBytes }) => [
    shortId(id),
    group,
    status,
    status === 'removed' ? formatSize(removedBytes) : '',
  ]);
  return [
    table(columns, rows),
    '',
    ...troubleOf(results),
    ...keptText(plan.kept),
    `${count(summary.counts.removed, 'entry', 'entries')} removed: ${formatSize(summary.removedBytes)}. ${gainText(summary)}`,
  ].join('\n');
}

/** A line for each entry that stayed against the plan. */
export function troubleOf(results: readonly EntryResult[]): string[] {
  return results.flatMap(({ id, failure }) =>
    failure === null ? [] : [`${shortId(id)}: ${failure.message}`],
  );
}

/** One that no retry cures before one that can be retried. */
export function worstOf(results: readonly EntryResult[]): Failure | null {
  const failures = results.flatMap(({ failure }) => failure ?? []);
  return failures.find(({ retryable }) => !retryable) ?? failures[0] ?? null;
}

function entryTable(entries: readonly PlannedEntry[]): string {
  const columns = [
    { title: 'GROUP' },
    { title: 'ENTRY' },
    { title: 'SIZE', align: 'right' },
    { title: 'FREES', align: 'right' },
    { title: 'WHY' },
  ] as const;
  return table(
    columns,
    entries.map(({ group, id, bytes, freedBytes, reason }) => [
      group,
      shortId(id),
      formatSize(bytes),
      formatSize(freedBytes),
      reason,
    ]),
  );
}

function totals({ entries }: CleanupPlan): string[] {
  const groups = [...Map.groupBy(entries, ({ group }) => group)].map(
    ([group, some]) => `${group} ${some.length} (${formatSize(sum(some.map(({ bytes }) => bytes)))})`,
  );
  const bytes = formatSize(sum(entries.map((entry) => entry.bytes)));
  const freed = formatSize(sum(entries.map(({ freedBytes }) => freedBytes)));
  return [
    `${count(entries.length, 'entry', 'entries')} can go: ${groups.join(', ')}.`,
    `Together ${bytes}, which frees at most ${freed} on the file system.`,
  ];
}

function keptText(kept: readonly KeptEntry[]): string[] {
  return kept.map(({ id, bytes, reason }) => `Stays: ${shortId(id)}, ${formatSize(bytes)}: ${reason}.`);
}

/** What was not asked for, and what can't be. */
function publishedText({ groups }: CleanupPlan): string[] {
  const isByItself = new Set<string>([...defaultGroups, 'chosen']);
  return groups.flatMap(({ group, isAskedFor, entries, bytes, unavailable }) => {
    if (isByItself.has(group)) return [];
    if (isAskedFor) return unavailable === null ? [] : [`Not offered: ${group}, because ${unavailable}.`];
    return entries === null || entries === 0
      ? []
      : [`Off: ${group}, ${count(entries, 'artifact')} with ${formatSize(bytes ?? 0)} (--include ${group}).`];
  });
}

function gainText({ gainedBytes, unlinkedBytes }: CleanupSummary): string {
  if (gainedBytes === null) return 'What the file system gained could not be measured.';
  const measured = gainedBytes >= 0 ? formatSize(gainedBytes) : `-${formatSize(-gainedBytes)}`;
  return `Of ${formatSize(unlinkedBytes)} on the disk the file system gained ${measured}, what others wrote meanwhile included.`;
}

/** `tmp/3f9a1c…`: its place and the beginning of its key. */
function shortId(id: string): string {
  const [place = '', name = ''] = id.split('/');
  return `${place}/${shortKey(name)}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
