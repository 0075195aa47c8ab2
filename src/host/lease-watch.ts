/**
 * Takes note of who holds leases in a store, once in a while for as long as the store is there, so that one can
 * tell later when an artifact was last used. The kernel remembers nothing, and a lease that came and went
 * between two looks was not seen.
 */
import { isSystemError } from '#native';
import type { History, SeenLease } from '../catalog/history.ts';
import { lockStates, type LockState } from '../store/lock-holders.ts';

export interface LeaseWatchOptions {
  readonly now: () => number;
  readonly everyMs: number;
  readonly onBug: (error: unknown) => void;
}

/** Whoever opens a store wants to see what is in it first. */
const firstLookMs = 5000;

interface Followed {
  readonly uuid: string;
  readonly root: string;
}

export class LeaseWatch {
  readonly #history: History;
  readonly #options: LeaseWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #followed: Followed | null = null;
  #first: NodeJS.Timeout | null = null;

  constructor(history: History, options: LeaseWatchOptions) {
    this.#history = history;
    this.#options = options;
    this.#timer = setInterval(() => void this.#look().catch(options.onBug), options.everyMs);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.follow(null);
  }

  /** The store that is there now; null: none is. One that was not followed before is looked at soon. */
  follow(store: Followed | null): void {
    if (store?.uuid === this.#followed?.uuid) return;
    this.#followed = store;
    if (this.#first !== null) clearTimeout(this.#first);
    if (store === null) return;
    this.#first = setTimeout(() => void this.#look().catch(this.#options.onBug), firstLookMs);
    this.#first.unref();
  }

  /** All locks of the store as they are now, from whoever has asked for them anyway. */
  saw(states: readonly LockState[]): void {
    if (this.#followed === null) return;
    this.#history.sawLeases(this.#followed.uuid, states.flatMap(leaseOf), this.#options.now());
  }

  async #look(): Promise<void> {
    if (this.#followed === null) return;
    const { uuid, root } = this.#followed;
    try {
      const states = await lockStates(root);
      if (this.#followed?.uuid === uuid) this.saw(states);
    } catch (error) {
      // The store went: the next look at it tells.
      if (!isSystemError(error)) throw error;
    }
  }
}

/** A lock that is not ours to see may be held: it counts as in use. */
function leaseOf({ purpose, key, state, holders: [holder] }: LockState): SeenLease[] {
  if (purpose !== 'artifact' || key === null || state === 'free') return [];
  return [{ key, pid: holder?.pid ?? 0, command: holder?.command ?? '' }];
}
