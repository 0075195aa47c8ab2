/**
 * Removing what is in the store, by key or by quarantine entry. Locks are taken without waiting, build lock
 * before artifact lock: cleanup never waits for an owner and never interrupts one.
 * Source: host-weight store specification, section 7.
 */
import { native } from '#native';
import { failure, FailureError, outcomeOf, type Outcome } from '../contract/failure.ts';
import { requireSameRoot, statChild, type DomainDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { underBothLocks } from './key-locks.ts';
import { isDirectory } from './metadata-file.ts';
import {
  finishInterruptedMoves,
  moveEntry,
  quarantineEntry,
  removeDenyMarker,
  removeTombstones,
  type Place,
} from './move.ts';
import { denyFile, isBasename, isKey, keyOfName, quarantineName } from './paths.ts';

export interface Removal {
  /** Sum of st_size of the regular files that went. */
  readonly removedBytes: number;
  /** Whether anything was there. */
  readonly removed: boolean;
}

/** Takes an artifact out of service and removes it, with its deny marker and earlier interrupted cleanups. */
export function cleanup(domain: Domain, key: string): Promise<Outcome<Removal>> {
  return outcomeOf(async () => {
    if (!isKey(key))
      throw wrongUse(`${JSON.stringify(key)} is not an artifact key (64 lower-case hex digits)`);
    return await underBothLocks(domain, key, async (directories) => {
      await finishInterruptedMoves(directories, key);
      const denied = statChild(directories.deny, denyFile(key)) !== null;
      const name = await quarantineEntry(directories, key, 'cleanup');
      const removedBytes = await bytesOfTombstones(directories, key);
      await removeTombstones(directories, key);
      await removeDenyMarker(directories, denyFile(key));
      return { removedBytes, removed: denied || name !== null || removedBytes > 0 };
    });
  });
}

/**
 * Removes one entry of `quarantine/` by its basename, and what earlier interrupted cleanups of its key left.
 * READY artifacts, deny markers, other quarantined entries and lock files stay.
 */
export function cleanupQuarantined(domain: Domain, name: string): Promise<Outcome<Removal>> {
  return outcomeOf(async () => {
    const key = keyOfName(name);
    if (key === null || !isBasename(name)) {
      throw wrongUse(
        `${JSON.stringify(name)} is not the name of a quarantined entry (they start with 64 hex digits)`,
      );
    }
    return await underBothLocks(domain, key, async (directories) => {
      const stat = statChild(directories.quarantine, name);
      if (stat !== null && !isDirectory(stat)) {
        throw new FailureError(
          failure(
            'lifecycle',
            'quarantine_failed',
            `quarantine/${name} is not a directory, so it is not an entry that was put there by the store: look at it and remove it by hand`,
          ),
        );
      }
      if (stat !== null && !name.startsWith(`${key}.cleanup.`)) {
        const { quarantine } = directories;
        await moveEntry(
          { directory: quarantine, name },
          { directory: quarantine, name: quarantineName(key, 'cleanup') },
        );
      }
      const removedBytes = await bytesOfTombstones(directories, key);
      await removeTombstones(directories, key);
      // An earlier run may have removed the entry and died before the removal was durable.
      await native.fsync(directories.quarantine);
      return { removedBytes, removed: stat !== null || removedBytes > 0 };
    });
  });
}

/** Where what can be removed lies. */
export type RemovablePlace = 'artifacts' | 'deny' | 'quarantine' | 'tmp';

/**
 * Removes exactly one entry of a directory of the store, and with an artifact its deny marker; what else the key
 * has stays. `confirm` looks at it under both locks, and leaves it by answering false.
 *
 * At every point a crash leaves either the entry as it was or what no lookup serves: a staged build that has lost
 * files, a tombstone in quarantine, a deny marker without its artifact.
 */
export function removeEntry(
  domain: Domain,
  { place, name }: { readonly place: RemovablePlace; readonly name: string },
  confirm: (directories: DomainDirectories) => Promise<boolean> | boolean,
): Promise<Outcome<boolean>> {
  return outcomeOf(async () => {
    const key = keyOfName(name);
    if (key === null || !isBasename(name)) {
      throw wrongUse(`${JSON.stringify(name)} is not the name of an entry (they start with 64 hex digits)`);
    }
    return await underBothLocks(domain, key, async (directories) => {
      requireSameRoot(domain.root, directories);
      if (!(await confirm(directories))) return false;
      switch (place) {
        case 'tmp':
          await native.removeTree(directories.tmp, name);
          await native.fsync(directories.tmp);
          break;
        case 'deny':
          await removeDenyMarker(directories, name);
          break;
        case 'artifacts':
        case 'quarantine':
          await removeThroughTombstone(directories, { directory: directories[place], name }, key);
      }
      // Only now: an artifact that is denied must not be served for want of its marker.
      if (place === 'artifacts') await removeDenyMarker(directories, denyFile(key));
      return true;
    });
  });
}

async function removeThroughTombstone(
  { quarantine }: DomainDirectories,
  from: Place,
  key: string,
): Promise<void> {
  const isTombstone = from.directory === quarantine && from.name.startsWith(`${key}.cleanup.`);
  const name = isTombstone ? from.name : quarantineName(key, 'cleanup');
  if (!isTombstone) await moveEntry(from, { directory: quarantine, name });
  await native.removeTree(quarantine, name);
  await native.fsync(quarantine);
}

function wrongUse(message: string): FailureError {
  return new FailureError(failure('configuration', 'invalid_config', message));
}

async function bytesOfTombstones({ quarantine }: DomainDirectories, key: string): Promise<number> {
  const entries = await native.listTree(quarantine);
  return entries
    .filter((entry) => entry.name.startsWith(`${key}.cleanup.`))
    .reduce((total, entry) => total + entry.bytes, 0);
}
