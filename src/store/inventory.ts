/**
 * What lies in a domain: plain listings of its four directories, nothing validated, and every byte below
 * the root accounted for. What no state explains is `other`: listed, never touched.
 * Source: host-weight store specification, sections 7 and 8.
 */
import { native, type Stat, type TreeEntry } from '#native';
import { freeBytes } from './capacity.ts';
import { openDirectory, statChild, withDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { isDirectory, isRegularFile, readDocument } from './metadata-file.ts';
import { keyOfName, modes, quarantineReason } from './paths.ts';
import { pause, turn } from './turns.ts';

export type EntryState = 'denied' | 'quarantined' | 'ready' | 'temporary';

export interface InventoryEntry {
  readonly key: string;
  readonly state: EntryState;
  /** Name in its directory. */
  readonly name: string;
  /** Sum of st_size, as the store's limits count. */
  readonly bytes: number;
  readonly allocatedBytes: number;
  /** What removing it would give back: an upper bound where its blocks are shared with other files. */
  readonly freeableBytes: number;
  /** Why it is denied or quarantined; null where that is not recorded. */
  readonly reason: string | null;
  /** The sticky bit is set: a publication or a move was interrupted, and the entry is not served. */
  readonly invalidated: boolean;
  readonly modifiedNs: bigint;
  /** Of the entry itself, not of what lies in it. */
  readonly stat: Stat;
  /** Changes when the entry or anything in it does; 16 hex digits. */
  readonly signature: string;
}

export interface OtherEntry {
  /** Relative to the root. */
  readonly path: string;
  readonly bytes: number;
  readonly allocatedBytes: number;
}

export interface Inventory {
  readonly entries: readonly InventoryEntry[];
  readonly other: readonly OtherEntry[];
  /** Everything below the root, in whatever state. */
  readonly storeBytes: number;
  readonly filesystemFreeBytes: number;
}

const stateOf = { artifacts: 'ready', deny: 'denied', quarantine: 'quarantined', tmp: 'temporary' } as const;

export async function inventory(domain: Domain): Promise<Inventory> {
  return await withDirectories(domain.root, async (directories) => {
    const entries: InventoryEntry[] = [];
    const other: OtherEntry[] = [];
    let storeBytes = 0;
    for (const [directory, state] of Object.entries(stateOf) as [keyof typeof stateOf, EntryState][]) {
      for (const entry of await native.listTree(directories[directory])) {
        // A domain can hold many thousand entries: others get their turn in between.
        await pause();
        storeBytes += entry.bytes;
        const key = keyOfName(entry.name);
        if (key === null) other.push(otherEntry(`${directory}/${entry.name}`, entry));
        else
          entries.push(
            inventoryEntry(
              key,
              state,
              entry,
              state === 'denied' ? denyReason(directories.deny, entry) : null,
            ),
          );
      }
    }
    const explained = new Set<string>(Object.keys(stateOf));
    for (const name of native.readdir(directories.root)) {
      if (explained.has(name)) continue;
      const entry = await otherBelowRoot(directories.root, name);
      storeBytes += entry.bytes;
      other.push(entry);
    }
    await turn();
    sortByKeyStateName(entries);
    other.sort((a, b) => (a.path < b.path ? -1 : 1));
    return { entries, other, storeBytes, filesystemFreeBytes: freeBytes(domain.root) };
  });
}

function inventoryEntry(
  key: string,
  state: EntryState,
  entry: TreeEntry,
  denied: string | null,
): InventoryEntry {
  return {
    key,
    state,
    name: entry.name,
    bytes: entry.bytes,
    allocatedBytes: entry.allocatedBytes,
    freeableBytes: entry.freeableBytes,
    reason: state === 'quarantined' ? quarantineReason(entry.name) : denied,
    invalidated: state !== 'denied' && (entry.stat.mode & modes.invalidated) !== 0,
    modifiedNs: entry.stat.mtimeNs,
    stat: entry.stat,
    signature: entry.signature.toString(16).padStart(16, '0'),
  };
}

function otherEntry(path: string, { bytes, allocatedBytes }: TreeEntry): OtherEntry {
  return { path, bytes, allocatedBytes };
}

/** Looks into one entry alone, so that the four big directories are walked once and not again with the root. */
async function otherBelowRoot(root: number, name: string): Promise<OtherEntry> {
  const stat = statChild(root, name);
  if (stat === null) return { path: name, bytes: 0, allocatedBytes: 0 };
  if (!isDirectory(stat)) {
    return {
      path: name,
      bytes: isRegularFile(stat) ? stat.sizeBytes : 0,
      allocatedBytes: stat.allocatedBytes,
    };
  }
  const fd = openDirectory(root, name);
  try {
    return (await native.listTree(fd)).reduce(
      (sum, child) => ({
        path: name,
        bytes: sum.bytes + child.bytes,
        allocatedBytes: sum.allocatedBytes + child.allocatedBytes,
      }),
      { path: name, bytes: 0, allocatedBytes: stat.allocatedBytes },
    );
  } finally {
    native.close(fd);
  }
}

function denyReason(deny: number, { name }: TreeEntry): string | null {
  try {
    const reason = readDocument(deny, name)['reason'];
    return typeof reason === 'string' ? reason : null;
  } catch {
    // The marker's presence counts, whatever it says.
    return null;
  }
}

/**
 * Order of the published package's inventory: key, then state word, then name. One text per entry is compared,
 * because comparing three for each pair takes several times as long.
 */
function sortByKeyStateName(entries: InventoryEntry[]): void {
  const order = new Map(entries.map((entry) => [entry, `${entry.key}\0${entry.state}\0${entry.name}`]));
  entries.sort((a, b) => ((order.get(a) as string) < (order.get(b) as string) ? -1 : 1));
}
