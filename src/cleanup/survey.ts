/**
 * A look into one entry before it is planned and again before it is removed: what it weighs, what its removal
 * would free, and whether this user could remove it at all, so that nothing is ever half done for want of a
 * permission. Links are looked at and never followed; nothing is changed.
 */
import { join } from 'node:path';
import { native, isSystemError, type Stat } from '#native';
import { openDirectory, statChild } from '../store/directories.ts';
import { reasonOf } from '../store/faults.ts';
import { mountOf, readMounts, type Mount } from '../store/filesystem-type.ts';
import { isDirectory, isRegularFile } from '../store/metadata-file.ts';

export interface Survey {
  readonly stat: Stat;
  /** Sum of st_size over the regular files. */
  readonly bytes: number;
  /** Of everything in it, directories included; a file with several links in it counts once. */
  readonly allocatedBytes: number;
  /** The part of the allocated bytes that has no link elsewhere. Extents shared by reflinks can make it less. */
  readonly freedBytes: number;
  readonly files: number;
  /** Why this user can't remove it; null where nothing stands against it. */
  readonly problem: string | null;
}

/** What the store itself writes is one level deep. Whatever is deeper than this was put there by hand. */
const deepest = 64;

/** Who looks, and what is mounted: asked once for many surveys. */
export interface Surveyor {
  readonly uid: number;
  readonly mounts: readonly Mount[];
  /** Absolute, without links. */
  readonly root: string;
}

export function surveyorOf(root: string, mounts: readonly Mount[] = readMounts()): Surveyor {
  const below = mounts.filter(({ mountPoint }) => mountPoint.startsWith(`${root}/`));
  return { uid: process.geteuid?.() ?? 0, mounts: below, root };
}

/** Null where nothing is there. Throws a SystemError where the entry itself can't be looked at. */
export function survey(surveyor: Surveyor, directory: number, place: string, name: string): Survey | null {
  const stat = statChild(directory, name);
  if (stat === null) return null;
  const sums = new Sums(surveyor);
  sums.add(directory, name, stat, `${place}/${name}`, 0);
  return { stat, ...sums.result() };
}

interface LinkedFile {
  readonly links: number;
  readonly allocatedBytes: number;
  seen: number;
}

class Sums {
  readonly #surveyor: Surveyor;
  readonly #linked = new Map<string, LinkedFile>();
  #bytes = 0;
  #allocatedBytes = 0;
  #freedBytes = 0;
  #files = 0;
  #problem: string | null = null;

  constructor(surveyor: Surveyor) {
    this.#surveyor = surveyor;
  }

  add(parent: number, name: string, stat: Stat, path: string, depth: number): void {
    if (this.#isMountPoint(path)) return this.#note(`something is mounted on ${path}: unmount it first`);
    if (isRegularFile(stat)) {
      this.#bytes += stat.sizeBytes;
      this.#files += 1;
    }
    this.#weigh(stat);
    if (!isDirectory(stat)) return;
    const { uid } = this.#surveyor;
    if (uid !== 0 && stat.uid !== uid) {
      return this.#note(`${path} belongs to user ${stat.uid}, and only that user can remove what is in it`);
    }
    if (depth >= deepest) return this.#note(`${path} lies deeper than anything that the store writes`);
    this.#enter(parent, name, stat, path, depth);
  }

  result(): Omit<Survey, 'stat'> {
    for (const { links, seen, allocatedBytes } of this.#linked.values()) {
      if (seen >= links) this.#freedBytes += allocatedBytes;
    }
    this.#linked.clear();
    return {
      bytes: this.#bytes,
      allocatedBytes: this.#allocatedBytes,
      freedBytes: this.#freedBytes,
      files: this.#files,
      problem: this.#problem,
    };
  }

  #enter(parent: number, name: string, stat: Stat, path: string, depth: number): void {
    let fd: number;
    try {
      fd = openDirectory(parent, name);
    } catch (error) {
      if (!isSystemError(error)) throw error;
      // Our own, closed to ourselves: its removal opens it, but what is in it can't be weighed before.
      if (error.code === 'EACCES' || error.code === 'ENOENT') return;
      return this.#note(`${path} cannot be looked into: ${reasonOf(error)}`);
    }
    try {
      const opened = native.fstat(fd);
      if (opened.dev !== stat.dev || opened.ino !== stat.ino) return this.#note(`${path} is being changed`);
      for (const child of native.readdir(fd)) {
        const below = statChildQuietly(fd, child);
        if (below !== null) this.add(fd, child, below, `${path}/${child}`, depth + 1);
      }
    } finally {
      native.close(fd);
    }
  }

  #weigh(stat: Stat): void {
    const { allocatedBytes, nlink } = stat;
    if (isDirectory(stat) || nlink <= 1) {
      this.#allocatedBytes += allocatedBytes;
      this.#freedBytes += allocatedBytes;
      return;
    }
    const id = `${stat.dev}:${stat.ino}`;
    const known = this.#linked.get(id);
    if (known !== undefined) {
      known.seen += 1;
      return;
    }
    this.#allocatedBytes += allocatedBytes;
    this.#linked.set(id, { links: nlink, allocatedBytes, seen: 1 });
  }

  /** A bind mount of the same file system has the same device, so the table of mounts is asked. */
  #isMountPoint(path: string): boolean {
    const { mounts, root } = this.#surveyor;
    if (mounts.length === 0) return false;
    const whole = join(root, path);
    return mountOf(whole, mounts)?.mountPoint === whole;
  }

  #note(problem: string): void {
    this.#problem ??= problem;
  }
}

/** A directory that may be listed but not searched tells nothing of what is in it. */
function statChildQuietly(directory: number, name: string): Stat | null {
  try {
    return statChild(directory, name);
  } catch (error) {
    if (isSystemError(error) && error.code === 'EACCES') return null;
    throw error;
  }
}
