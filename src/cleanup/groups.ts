/** Why an entry can go: the groups of a plan, which of them are on by themselves, and their words. */

/** In the order in which an entry that fits several is put into one. */
export const cleanupGroups = [
  'dead-builds',
  'interrupted-cleanups',
  'half-moved',
  'quarantined',
  'stray-markers',
  'denied',
  'superseded',
  'unused',
  'chosen',
] as const;
export type CleanupGroup = (typeof cleanupGroups)[number];

/** Published artifacts, and so off unless they are asked for. */
export const optionalGroups = ['denied', 'superseded', 'unused'] as const satisfies readonly CleanupGroup[];

/** What nobody can use: on by themselves. `chosen` is on where something was chosen. */
export const defaultGroups = [
  'dead-builds',
  'interrupted-cleanups',
  'half-moved',
  'quarantined',
  'stray-markers',
] as const satisfies readonly CleanupGroup[];
