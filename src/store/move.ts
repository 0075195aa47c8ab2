/**
 * Moving an artifact's directory and removing trees, in the order that survives a crash anywhere.
 *
 * Some file systems refuse to rename a 0555 directory for anybody but root, so the directory is made
 * writable for the rename; and a crash between two steps must never leave an entry that looks
 * authoritative, so the sticky bit ("do not serve this") is durable before it and cleared only after both
 * parents are. Source: host-weight store specification, section 6.
 */
import { native } from '#native';
import { namesOfKey, openDirectory, statChild, type DomainDirectories } from './directories.ts';
import { isDirectory } from './metadata-file.ts';
import { modes, quarantineName, type QuarantineReason } from './paths.ts';

export interface Place {
  readonly directory: number;
  readonly name: string;
}

/** Moves an entry while the caller holds its exclusive artifact lock. Throws a SystemError. */
export async function moveEntry(from: Place, to: Place): Promise<void> {
  const stat = native.fstatat(from.directory, from.name);
  if (!isDirectory(stat)) {
    native.renameat(from.directory, from.name, to.directory, to.name);
    await native.fsync(from.directory);
    await native.fsync(to.directory);
    return;
  }
  const fd = openDirectory(from.directory, from.name);
  try {
    const immutable = permissions(fd) & ~modes.writable;
    const inTransit = immutable | modes.invalidated;
    try {
      await setMode(fd, inTransit);
      native.fchmod(fd, inTransit | 0o200);
      native.renameat(from.directory, from.name, to.directory, to.name);
    } catch (error) {
      // Wherever the entry is now, it must not stay writable; a failure of this says more than the first one.
      await setMode(fd, immutable);
      throw error;
    }
    await setMode(fd, inTransit);
    await native.fsync(from.directory);
    await native.fsync(to.directory);
    await setMode(fd, immutable & ~modes.invalidated);
  } finally {
    native.close(fd);
  }
}

/** Takes the entry of a key out of service; null when there is none. The exclusive artifact lock is held. */
export async function quarantineEntry(
  { artifacts, quarantine }: DomainDirectories,
  key: string,
  reason: QuarantineReason,
): Promise<string | null> {
  if (statChild(artifacts, key) === null) return null;
  const name = quarantineName(key, reason);
  await moveEntry({ directory: artifacts, name: key }, { directory: quarantine, name });
  return name;
}

/** Marks an open artifact directory as not authoritative, durably. */
export async function markInvalidated(fd: number): Promise<void> {
  await setMode(fd, permissions(fd) | modes.invalidated);
}

/** Finishes quarantine moves of a key that a crash interrupted. The exclusive artifact lock is held. */
export async function finishInterruptedMoves({ quarantine }: DomainDirectories, key: string): Promise<void> {
  let repaired = false;
  for (const name of namesOfKey(quarantine, key)) {
    const stat = native.fstatat(quarantine, name);
    if (!isDirectory(stat) || (stat.mode & modes.invalidated) === 0) continue;
    const fd = openDirectory(quarantine, name);
    try {
      await setMode(fd, permissions(fd) & ~modes.writable & ~modes.invalidated);
    } finally {
      native.close(fd);
    }
    repaired = true;
  }
  if (repaired) await native.fsync(quarantine);
}

/** Removes what interrupted cleanups of a key left. The exclusive artifact lock is held. */
export async function removeTombstones({ quarantine }: DomainDirectories, key: string): Promise<void> {
  const tombstones = native.readdir(quarantine).filter((name) => name.startsWith(`${key}.cleanup.`));
  for (const name of tombstones) await native.removeTree(quarantine, name);
  if (tombstones.length > 0) await native.fsync(quarantine);
}

export async function removeDenyMarker({ deny }: DomainDirectories, name: string): Promise<void> {
  if (statChild(deny, name) === null) return;
  native.unlinkat(deny, name);
  await native.fsync(deny);
}

function permissions(fd: number): number {
  return native.fstat(fd).mode & modes.permissions;
}

/** Some file systems accept a mode and do not keep it: what was asked for must be there before it is relied on. */
async function setMode(fd: number, mode: number): Promise<void> {
  native.fchmod(fd, mode);
  const actual = permissions(fd);
  if (actual !== mode) {
    throw Object.assign(
      new Error(`EIO: the directory has mode 0${actual.toString(8)} instead of 0${mode.toString(8)}`),
      {
        code: 'EIO',
        errno: 5,
        syscall: 'fchmod',
      },
    );
  }
  await native.fsync(fd);
}
