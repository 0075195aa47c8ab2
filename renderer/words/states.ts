/** The states that bytes and entries can be in: their name, what it means, and how they look. */
import type { InventoryRow } from '../../src/contract/domain-schemas.ts';
import type { StoreUsage } from '../../src/contract/store-schemas.ts';
import type { treemapArtifact } from '../../src/contract/domain-schemas.ts';
import type { z } from 'zod';

export type Shade = 'ready' | 'building' | 'quarantined' | 'denied' | 'temporary' | 'other';

export interface ShadeWords {
  readonly name: string;
  readonly meaning: string;
}

/** In the order of every stack and legend. */
export const shades: readonly Shade[] = ['ready', 'building', 'quarantined', 'denied', 'temporary', 'other'];

export const shadeWords: Readonly<Record<Shade, ShadeWords>> = {
  ready: { name: 'Ready', meaning: 'Published and served: a worker that asks for it finds it.' },
  building: { name: 'Building', meaning: 'Staged by a build that runs now.' },
  quarantined: {
    name: 'Quarantined',
    meaning: 'Moved aside because something was wrong with it. Not served.',
  },
  denied: {
    name: 'Denied',
    meaning: 'Published, but marked as not to be served. Its next build replaces it.',
  },
  temporary: { name: 'Leftover', meaning: 'Staged by a build that is gone. Can be cleaned up.' },
  other: { name: 'Other', meaning: 'Documents, lock files, and whatever no state explains.' },
};

export function shadeOfRow(row: InventoryRow): Shade {
  switch (row.state) {
    case 'ready':
      return row.served ? 'ready' : 'denied';
    case 'temporary':
      return row.building ? 'building' : 'temporary';
    case 'quarantined':
    case 'denied':
      return row.state;
  }
}

/** What the table calls a row's state; a marker is not an artifact. */
export function stateWordsOf(row: InventoryRow): string {
  if (row.state === 'denied') return 'Deny marker';
  if (row.state === 'ready' && row.invalidated) return 'Invalidated';
  return shadeWords[shadeOfRow(row)].name;
}

export function shadeOfTile(state: z.infer<typeof treemapArtifact>['state']): Shade {
  if (state === 'unserved') return 'denied';
  return state === 'leftover' ? 'temporary' : state;
}

export interface Part {
  readonly shade: Shade;
  readonly bytes: number;
  readonly entries: number;
}

/** The bytes of a store by state, in the order of the stack. */
export function partsOf(usage: StoreUsage): Part[] {
  const { ready, building, quarantined, denied, unserved, leftover, other } = usage;
  const both = { bytes: denied.bytes + unserved.bytes, entries: denied.entries + unserved.entries };
  return [
    { shade: 'ready', ...ready },
    { shade: 'building', ...building },
    { shade: 'quarantined', ...quarantined },
    { shade: 'denied', ...both },
    { shade: 'temporary', ...leftover },
    { shade: 'other', ...other },
  ];
}
