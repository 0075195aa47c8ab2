/**
 * Small files of our own that several of our processes read and write: replaced in one step, so that a reader
 * sees the old one or the new one also after a crash, and guarded while somebody reads, changes and writes.
 *
 * The guard is proper-lockfile's: a folder `<path>.lock` that its owner keeps fresh. An owner that died leaves
 * it to go stale; whoever comes next waits that long and takes it over.
 */
import { open, rename, rm } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { dirname, join, basename } from 'node:path';
import lockfile from 'proper-lockfile';
import { makeFolders } from '../store/directories.ts';
import { uuidHex } from '../store/paths.ts';

/** A guard that was not refreshed for this long belongs to nobody any more. */
const staleAfterMs = 5000;
const refreshEveryMs = 1000;
/** Longer than a guard takes to go stale, so that a crash delays and never refuses. */
const tries = 80;
const pauseMs = { least: 50, most: 150 };

/** For us alone: settings name paths, and a state file can hold a token. */
export const privateFile = 0o600;
export const privateFolder = 0o700;

/** Makes what is missing of it, for us alone. Throws a SystemError. */
export function makePrivateFolder(path: string): void {
  makeFolders(path, privateFolder);
}

/** Runs `work` while no other process of ours does the same for `path`. Makes its folder. */
export async function guarded<T>(path: string, work: () => Promise<T>): Promise<T> {
  makePrivateFolder(dirname(path));
  const release = await lock(path);
  try {
    return await work();
  } finally {
    await release().catch(() => undefined);
  }
}

/** Somebody else held the guard for longer than one that was left behind takes to go stale. */
export function isStillGuarded(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === 'ELOCKED';
}

async function lock(path: string): Promise<() => Promise<void>> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await lockfile.lock(path, {
        realpath: false,
        stale: staleAfterMs,
        update: refreshEveryMs,
        // A process that was stopped for seconds loses the guard; what it then writes is still whole.
        onCompromised: () => undefined,
      });
    } catch (error) {
      // Only what somebody else holds is worth waiting for: a folder that is not ours stays that.
      if (!isStillGuarded(error) || tried === tries) throw error;
      await setTimeout(pauseMs.least + Math.random() * (pauseMs.most - pauseMs.least));
    }
  }
}

/** Writes `text` beside `path`, makes it durable and puts it in place. Throws a SystemError. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${process.pid}.${uuidHex()}.tmp`);
  try {
    const file = await open(temporary, 'wx', privateFile);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  const parent = await open(folder, 'r');
  try {
    await parent.sync();
  } finally {
    await parent.close();
  }
}
