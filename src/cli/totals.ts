/** How a store's bytes divide: by state, and what no state explains. */
import type { EntryState, Inventory } from '../store/inventory.ts';
import type { JsonDocument } from './json-document.ts';

export interface StateTotal {
  readonly entries: number;
  readonly bytes: number;
}

export type StateTotals = Readonly<Record<EntryState, StateTotal>> & { readonly otherBytes: number };

export function stateTotals({ entries, other }: Inventory): StateTotals {
  const total = (state: EntryState): StateTotal => {
    const inState = entries.filter((entry) => entry.state === state);
    return { entries: inState.length, bytes: inState.reduce((sum, { bytes }) => sum + bytes, 0) };
  };
  return {
    ready: total('ready'),
    denied: total('denied'),
    quarantined: total('quarantined'),
    temporary: total('temporary'),
    otherBytes: other.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

export function totalsDocument(listed: Inventory): JsonDocument {
  const { otherBytes, ...byState } = stateTotals(listed);
  return {
    store_bytes: listed.storeBytes,
    filesystem_free_bytes: listed.filesystemFreeBytes,
    other_bytes: otherBytes,
    totals: byState,
  };
}
