/**
 * The store's locks: flock(2) on lock files that are never deleted, renamed or replaced. The kernel drops a
 * lock when its holder dies, so nothing is ever stale.
 *
 * Order, always: `domain-build.lock` (serialized domains only), then `<key>.build.lock`, then
 * `<key>.artifact.lock`. A lease is a shared artifact lock.
 *
 * Waiting polls from a timer and occupies neither the event loop nor a thread.
 * Source: host-weight store specification, section 2.
 */
import { constants } from 'node:fs';
import { native, isSystemError } from '#native';
import { monotonicMs, type Deadline } from './clock.ts';

const pollMs = 50;

/** The lock is held by somebody else and the wait for it is over. */
export class LockTimeout extends Error {
  readonly path: string;

  constructor(path: string, waited: boolean) {
    super(waited ? `timed out waiting for the lock ${path}` : `the lock ${path} is held by another process`);
    this.name = 'LockTimeout';
    this.path = path;
  }
}

export interface LockWait {
  /** Until when to wait; at least one attempt is made. Null waits for ever. */
  readonly deadline: Deadline;
  readonly signal?: AbortSignal | undefined;
}

/** One attempt, no waiting: what cleanup uses, so that it never waits for an owner. */
export const withoutWaiting: LockWait = { deadline: Number.NEGATIVE_INFINITY };

export class FileLock {
  readonly path: string;
  #fd: number | null;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  static exclusive(path: string, wait: LockWait): Promise<FileLock> {
    return FileLock.#acquire(path, true, wait);
  }

  static shared(path: string, wait: LockWait): Promise<FileLock> {
    return FileLock.#acquire(path, false, wait);
  }

  /** Throws LockTimeout, the signal's reason, or a SystemError (EACCES opening the file is not "held"). */
  static async #acquire(path: string, exclusive: boolean, { deadline, signal }: LockWait): Promise<FileLock> {
    for (;;) {
      const fd = native.open(path, constants.O_CREAT | constants.O_RDWR | constants.O_NOFOLLOW, 0o600);
      try {
        await waitFor(fd, path, exclusive, deadline, signal);
        if (stillNames(path, fd)) return new FileLock(path, fd);
      } catch (error) {
        native.close(fd);
        throw error;
      }
      // Somebody replaced the file against the rules: a lock on the old inode would exclude nobody.
      native.close(fd);
    }
  }

  get released(): boolean {
    return this.#fd === null;
  }

  /** Throws a SystemError if unlocking fails; the descriptor is closed all the same, which ends the lock too. */
  release(): void {
    const fd = this.#fd;
    if (fd === null) return;
    this.#fd = null;
    try {
      native.flockRelease(fd);
    } finally {
      native.close(fd);
    }
  }
}

async function waitFor(
  fd: number,
  path: string,
  exclusive: boolean,
  deadline: Deadline,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (;;) {
    signal?.throwIfAborted();
    if (native.flockTry(fd, exclusive)) return;
    const remaining = deadline === null ? Number.POSITIVE_INFINITY : deadline - monotonicMs();
    if (remaining <= 0) throw new LockTimeout(path, deadline !== Number.NEGATIVE_INFINITY);
    await pause(Math.min(pollMs, remaining), signal);
  }
}

/** Ends early, without throwing, when the signal fires: the caller looks at it next. */
function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener('abort', done);
  });
}

function stillNames(path: string, fd: number): boolean {
  try {
    const named = native.lstat(path);
    const locked = native.fstat(fd);
    return named.ino === locked.ino && named.dev === locked.dev;
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return false;
    throw error;
  }
}
