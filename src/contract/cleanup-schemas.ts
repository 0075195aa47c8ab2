/** What can go from a store and why, what came of removing it, and putting back what was taken out of service. */
import { z } from 'zod';
import { amount, artifactKey, failureValue, knownRoot, listOf, moment, page, rate } from './values.ts';

/** Why an entry can go; in the order in which one that fits several is put into one. */
export const cleanupGroups = [
  'dead-builds',
  'interrupted-cleanups',
  'half-moved',
  'quarantined',
  'stray-markers',
  'denied',
  'superseded',
  'unused',
] as const;
export type CleanupGroup = (typeof cleanupGroups)[number];

/** Published artifacts, and so off unless they are asked for. */
export const publishedGroups = ['denied', 'superseded', 'unused'] as const satisfies readonly CleanupGroup[];

/** Where in the store an entry lies. */
export const cleanupPlaces = ['artifacts', 'quarantine', 'tmp', 'deny'] as const;

const planId = z.string().regex(/^[0-9a-f]{32}$/, 'a plan is named by 32 hex digits');

export const planRequest = z.strictObject({
  root: knownRoot,
  /** Default: what nobody can use. */
  groups: z.array(z.enum(cleanupGroups)).max(cleanupGroups.length).optional(),
  /** For `unused`: how long nobody was seen to use it. */
  unusedAfterMs: z
    .int()
    .positive()
    .default(30 * 24 * 3600_000),
  /** For `superseded`: how many releases of each line stay. */
  keepLatest: z.int().min(1).max(1_000_000).default(1),
});
export type PlanRequest = z.input<typeof planRequest>;

export const plannedEntry = z.object({
  /** `<place>/<name>`. */
  id: z.string(),
  place: z.enum(cleanupPlaces),
  name: z.string(),
  key: artifactKey,
  /** Why it can go, in words. */
  reason: z.string(),
  bytes: amount,
  /** What removing it frees on the file system at most. */
  freedBytes: amount,
  /** From the manifest; null where it says nothing. */
  model: z.string().nullable(),
  component: z.string().nullable(),
  /** In quarantine, its key is free, and it is not there for a collision: `cleanup.restore` may bring it back. */
  isRestorable: z.boolean(),
});
export type PlannedEntry = z.infer<typeof plannedEntry>;

/** It fits a group that is asked for, and stays. */
export const keptEntry = z.object({
  id: z.string(),
  key: artifactKey,
  bytes: amount,
  because: z.enum(['building', 'leased', 'unknown-lock', 'not-removable']),
  /** In words that go on from the entry's name: `is in use by process 12 (python)`. */
  reason: z.string(),
});
export type KeptEntry = z.infer<typeof keptEntry>;

const going = z.object({ entries: amount, bytes: amount, freedBytes: amount });
const staying = z.object({ entries: amount, bytes: amount });

export const plannedGroup = z.object({
  group: z.enum(cleanupGroups),
  isAskedFor: z.boolean(),
  /** Of all that fits, what stays included; null where it is only counted when it is asked for. */
  fitting: z.object({ entries: amount, bytes: amount }).nullable(),
  /** Why it can't be asked for; null where it can. */
  unavailable: z.string().nullable(),
  going,
  staying,
  /** The first of what goes; `cleanup.entries` has the rest. */
  entries: listOf(plannedEntry),
  /** The first of what stays. */
  kept: listOf(keptEntry),
});
export type PlannedGroup = z.infer<typeof plannedGroup>;

export const cleanupPlan = z.object({
  id: planId,
  root: z.string(),
  madeAtMs: moment,
  /** Too old to be applied from then on. */
  goodUntilMs: moment,
  /** The look at the store that it goes with: see `domain.watch`. */
  revision: amount,
  unusedAfterMs: amount,
  keepLatest: amount,
  going,
  staying,
  /** All of them, in their order. */
  groups: listOf(plannedGroup),
  /** What no state explains: never touched. */
  unexplained: staying,
  storeBytes: amount,
});
export type CleanupPlan = z.infer<typeof cleanupPlan>;

export const planEntriesRequest = z.strictObject({
  root: knownRoot,
  planId,
  group: z.enum(cleanupGroups),
  ...page,
});
export const planEntries = z.object({ total: amount, offset: amount, rows: listOf(plannedEntry) });

/** Applies exactly the plan that was shown, once. */
export const applyRequest = z.strictObject({ root: knownRoot, planId });

/**
 * `gone`: somebody else had removed it. `changed`: it is not any more what the plan saw. `in-use`: built or leased
 * now. `refused`: this user can't remove it, and nothing of it was touched. `failed`: an error came in between.
 */
export const entryStatuses = ['removed', 'gone', 'changed', 'in-use', 'refused', 'failed'] as const;
export type EntryStatus = (typeof entryStatuses)[number];

export const entryResult = z.object({
  id: z.string(),
  key: artifactKey,
  status: z.enum(entryStatuses),
  removedBytes: amount,
  /** Null for `removed` and `gone`. */
  failure: failureValue.nullable(),
});
export type EntryResult = z.infer<typeof entryResult>;

export const cleanupSummary = z.object({
  planId,
  startedAtMs: moment,
  endedAtMs: moment,
  counts: z.record(z.enum(entryStatuses), amount),
  removedBytes: amount,
  /** On the disk, of what had no link elsewhere. */
  unlinkedBytes: amount,
  /** By how much the file system's free space grew, what others wrote meanwhile included; null: not known. */
  gainedBytes: z.int().nullable(),
  isCancelled: z.boolean(),
  /** Entries that were not looked at any more. */
  entriesLeft: amount,
});
export type CleanupSummary = z.infer<typeof cleanupSummary>;

export const cleanupEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('entry'), done: amount, total: amount, result: entryResult }),
  /** The last event. */
  z.object({ type: z.literal('result'), summary: cleanupSummary }),
]);
export type CleanupEvent = z.infer<typeof cleanupEvent>;

/** `name`: of the entry, in its directory. */
export const restoreRequest = z.strictObject({ root: knownRoot, name: z.string().min(1).max(255) });
export type RestoreRequest = z.infer<typeof restoreRequest>;

export const restorationEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('progress'),
    doneBytes: amount,
    totalBytes: amount,
    bytesPerSecond: rate.nullable(),
    secondsLeft: z.number().nonnegative().nullable(),
  }),
  /** The last event. */
  z.object({ type: z.literal('result'), key: artifactKey, payloadBytes: amount }),
]);
export type RestorationEvent = z.infer<typeof restorationEvent>;
