/**
 * Open descriptors of a domain's directories. Everything below a domain is reached relative to these, one
 * path component at a time, so that a link put into the path leads nowhere.
 *
 * They are opened for one operation and closed after it: a domain that is only known holds nothing open,
 * and its file system can be unmounted.
 */
import { constants, existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { native, isSystemError, type Stat } from '#native';
import { directoryNames, type DirectoryName } from './paths.ts';

export type DomainDirectories = Readonly<Record<DirectoryName | 'root', number>>;

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY;

export async function withDirectories<T>(
  root: string,
  use: (directories: DomainDirectories) => Promise<T> | T,
): Promise<T> {
  const opened: number[] = [];
  try {
    const rootFd = native.open(root, directoryFlags | constants.O_NOFOLLOW);
    opened.push(rootFd);
    const directories: Record<string, number> = { root: rootFd };
    for (const name of directoryNames) {
      const fd = native.openat(rootFd, name, directoryFlags);
      opened.push(fd);
      directories[name] = fd;
    }
    return await use(directories as DomainDirectories);
  } finally {
    for (const fd of opened) native.close(fd);
  }
}

/**
 * Throws ESTALE where the path no longer names the root that is open. Lock files are opened by path, as the
 * workers do it: a lock taken below something else that was put there would guard nothing.
 */
export function requireSameRoot(root: string, directories: DomainDirectories): void {
  const named = native.lstat(root);
  const opened = native.fstat(directories.root);
  if (named.dev === opened.dev && named.ino === opened.ino) return;
  throw Object.assign(new Error(`ESTALE: ${root} is not the store any more that it was when it was opened`), {
    code: 'ESTALE',
    errno: 116,
    syscall: 'lstat',
  });
}

export function openDirectory(parent: number, name: string): number {
  return native.openat(parent, name, directoryFlags);
}

/** lstat of a child; null when nothing is there. */
export function statChild(directory: number, name: string): Stat | null {
  try {
    return native.fstatat(directory, name);
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return null;
    throw error;
  }
}

export function childExists(directory: number, name: string): boolean {
  return statChild(directory, name) !== null;
}

/** Names in a directory that start with `<key>.`. */
export function namesOfKey(directory: number, key: string): string[] {
  return native.readdir(directory).filter((name) => name.startsWith(`${key}.`));
}

/**
 * Makes a folder and what is missing above it; `mode` is for those that are made. Throws a SystemError.
 *
 * Not mkdir's own `recursive`: that never returns where a file system answers ENOENT below a folder that is
 * there, as procfs does and a network mount may.
 */
export function makeFolders(path: string, mode = 0o777): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolders(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isSystemError(error) || error.code !== 'EEXIST') throw error;
  }
}
