/**
 * One look at a store: its entries as rows, what they cost, and who builds in it. A value; nothing in it
 * changes after it was made.
 */
import type { Catalog } from '../catalog/catalog.ts';
import type { EntryFacts } from '../catalog/entry-facts.ts';
import { entryId } from '../catalog/entry-table.ts';
import type { KnownVerification } from '../catalog/verification-table.ts';
import type { InventoryRow } from '../contract/domain-schemas.ts';
import type { StoreUsage } from '../contract/store-schemas.ts';
import type { Domain } from '../store/domain.ts';
import { inventory, type Inventory, type InventoryEntry } from '../store/inventory.ts';
import { namedLockStates, type LockState } from '../store/lock-holders.ts';
import { admissionLock, buildLock } from '../store/paths.ts';
import { eachInTurn, turn } from '../store/turns.ts';

/** A row but for what this program knows of it from elsewhere. */
export type SnapshotRow = Omit<InventoryRow, 'lastVerified'>;

export interface StoreSnapshot {
  readonly rows: readonly SnapshotRow[];
  readonly usage: Omit<StoreUsage, 'revision'>;
  readonly listed: Inventory;
  /** How artifacts came out of their last check, by key: of those that are still as they were then. */
  readonly verifications: ReadonlyMap<string, KnownVerification>;
  /** The admission lock and the build locks of what is staged: those that somebody holds. */
  readonly heldBuildLocks: readonly LockState[];
  /** Equal for two looks that found the same. */
  readonly signature: string;
}

/** Throws a SystemError or a FailureError where the store can't be listed. */
export async function takeSnapshot(domain: Domain, catalog: Catalog, nowMs: number): Promise<StoreSnapshot> {
  const listed = await inventory(domain);
  const locks = await buildLocks(domain, listed.entries);
  const heldBuildLocks = locks.filter(({ state }) => state === 'held');
  const building = new Set(heldBuildLocks.flatMap(({ purpose, key }) => (purpose === 'build' ? [key] : [])));
  const denied = new Set(listed.entries.flatMap(({ state, key }) => (state === 'denied' ? [key] : [])));
  const { facts } = await catalog.refresh(domain, listed);
  const rows = await eachInTurn(listed.entries, (entry, index) =>
    rowOf(entry, facts[index] as EntryFacts, denied.has(entry.key), building.has(entry.key)),
  );
  await turn();
  const usage = usageOf(listed, rows, nowMs);
  await turn();
  return {
    rows,
    usage,
    listed,
    verifications: await catalog.verifications(domain, listed),
    heldBuildLocks,
    signature: [
      `${listed.storeBytes} ${[...building].join(' ')}`,
      heldBuildLocks.map(({ name, holders }) => `${name} ${holders.map(({ pid }) => pid).join(' ')}`).join(),
      ...listed.entries.map((entry) => `${entryId(entry)} ${entry.signature}`),
    ].join('\n'),
  };
}

async function buildLocks(domain: Domain, entries: readonly InventoryEntry[]): Promise<LockState[]> {
  const staged = entries.flatMap(({ state, key }) => (state === 'temporary' ? [buildLock(key)] : []));
  return await namedLockStates(domain.root, [admissionLock, ...new Set(staged)]);
}

function rowOf(
  entry: InventoryEntry,
  facts: EntryFacts,
  isKeyDenied: boolean,
  isKeyBuilding: boolean,
): SnapshotRow {
  const { key, state, name, bytes, allocatedBytes, reason, invalidated } = entry;
  const denied = state === 'ready' && isKeyDenied;
  return {
    id: entryId(entry),
    key,
    state,
    name,
    bytes,
    allocatedBytes,
    reason,
    served: state === 'ready' && !denied && !invalidated,
    invalidated,
    denied,
    building: state === 'temporary' && isKeyBuilding,
    modifiedAtMs: Number(entry.modifiedNs / 1_000_000n),
    ...facts,
  };
}

function usageOf(
  { storeBytes, filesystemFreeBytes, other }: Inventory,
  rows: readonly SnapshotRow[],
  measuredAtMs: number,
): StoreSnapshot['usage'] {
  const tally = {
    ready: none(),
    unserved: none(),
    denied: none(),
    quarantined: none(),
    building: none(),
    leftover: none(),
  };
  for (const row of rows) {
    const sum = tally[classOf(row)];
    sum.entries += 1;
    sum.bytes += row.bytes;
  }
  const explained = Object.values(tally).reduce((total, { bytes }) => total + bytes, 0);
  const { unserved, denied, quarantined, leftover } = tally;
  return {
    measuredAtMs,
    storeBytes,
    filesystemFreeBytes,
    ...tally,
    other: { entries: other.length, bytes: Math.max(0, storeBytes - explained) },
    reclaimableBytes: unserved.bytes + denied.bytes + quarantined.bytes + leftover.bytes,
  };
}

function none(): { entries: number; bytes: number } {
  return { entries: 0, bytes: 0 };
}

export type RowClass = 'ready' | 'unserved' | 'denied' | 'quarantined' | 'building' | 'leftover';

/** What a row's bytes are to the person who pays for them. */
export function classOf({ state, served, building }: SnapshotRow): RowClass {
  switch (state) {
    case 'ready':
      return served ? 'ready' : 'unserved';
    case 'temporary':
      return building ? 'building' : 'leftover';
    case 'denied':
    case 'quarantined':
      return state;
  }
}
