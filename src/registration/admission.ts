/**
 * Taking turns: registrars of several GPUs on one file fight over its pages. An exclusive lock for each backing
 * file, in a folder of our own and never in a domain's `locks/`, held while one file is registered and no longer;
 * nobody ever holds two. Registrars that were told not to take turns hold it shared, so that one which has to
 * repeat alone waits for them.
 *
 * Lock files are never deleted: two holders on two inodes would exclude nobody.
 */
import { join } from 'node:path';
import { native } from '#native';
import { FileLock } from '../store/lock.ts';
import { holdersOfFile, type LockHolder } from '../store/lock-holders.ts';

export interface AdmissionRequest {
  readonly folder: string;
  /** Of the backing file. */
  readonly fd: number;
  readonly parallel: boolean;
  readonly signal: AbortSignal;
  /** Called once where there is somebody to wait for. */
  readonly onWait: (holders: readonly LockHolder[]) => void;
}

/** Throws the signal's reason when it fires. */
export async function admitted({
  folder,
  fd,
  parallel,
  signal,
  onWait,
}: AdmissionRequest): Promise<FileLock> {
  const path = admissionPath(folder, fd);
  const noWait = { deadline: Number.NEGATIVE_INFINITY, signal };
  const take = async (wait: typeof noWait | { deadline: null; signal: AbortSignal }): Promise<FileLock> =>
    parallel ? await FileLock.shared(path, wait) : await FileLock.exclusive(path, wait);
  try {
    return await take(noWait);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'LockTimeout') throw error;
  }
  onWait(holdersOfFile(path, '/proc', 'name'));
  return await take({ deadline: null, signal });
}

/** By device and inode: links and mounts give one file several names. */
export function admissionPath(folder: string, fd: number): string {
  const { dev, ino } = native.fstat(fd);
  return join(folder, `${dev}-${ino}.lock`);
}
