/** Locks as the pages show them: who holds which, since when that has been seen, and whether it is one of ours. */
import type { DomainLocks } from '../contract/domain-schemas.ts';
import type { LockHolder, LockState } from '../store/lock-holders.ts';
import type { LockSightings } from './lock-sightings.ts';

export type HeldLock = DomainLocks['held'][number];

/** The id of the build that a process of ours runs; null for a stranger. */
export type BuildOfProcess = (pid: number) => string | null;

/** All of them strangers': see `withBuilds`. */
export function heldLocks(states: readonly LockState[], sightings: LockSightings): HeldLock[] {
  sightings.see(states);
  return states
    .filter(({ state, waiters }) => state === 'held' || waiters.length > 0)
    .map(({ name, purpose, key, holders, waiters }) => {
      const shown = ({ pid, command, mode, startTicks }: LockHolder): HeldLock['holders'][number] => ({
        pid,
        command,
        mode,
        seenSinceMs: sightings.sinceMs(name, { pid, command, mode, startTicks }),
        buildId: null,
      });
      return { name, purpose, key, holders: holders.map(shown), waiters: waiters.map(shown) };
    })
    .sort((a, b) => Number(b.purpose === 'admission') - Number(a.purpose === 'admission'));
}

/** The same locks, with the builds of ours that hold or await them. */
export function withBuilds(locks: readonly HeldLock[], buildOf: BuildOfProcess): HeldLock[] {
  const known = (holder: HeldLock['holders'][number]): HeldLock['holders'][number] => ({
    ...holder,
    buildId: buildOf(holder.pid),
  });
  return locks.map((lock) => ({
    ...lock,
    holders: lock.holders.map(known),
    waiters: lock.waiters.map(known),
  }));
}
