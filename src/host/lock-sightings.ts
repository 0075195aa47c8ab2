/**
 * Since when a lock's holder has been seen. The kernel does not record it, so what can be said is since when
 * this program saw it; a process is told from a later one with its number by its start.
 */
import type { LockHolder, LockState } from '../store/lock-holders.ts';

export class LockSightings {
  readonly #sinceMs = new Map<string, Map<string, number>>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes note of locks as they are now. Locks that are not among them are left as they were. */
  see(states: readonly LockState[]): void {
    for (const { name, holders, waiters } of states) {
      const before = this.#sinceMs.get(name);
      const now = new Map<string, number>();
      for (const holder of [...holders, ...waiters]) {
        const id = identityOf(holder);
        now.set(id, before?.get(id) ?? this.#now());
      }
      if (now.size > 0) this.#sinceMs.set(name, now);
      else this.#sinceMs.delete(name);
    }
  }

  sinceMs(lockName: string, holder: LockHolder): number {
    return this.#sinceMs.get(lockName)?.get(identityOf(holder)) ?? this.#now();
  }
}

function identityOf({ pid, startTicks }: LockHolder): string {
  return `${pid}:${startTicks ?? ''}`;
}
