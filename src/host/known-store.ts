/**
 * One store that somebody opened here. What is asked about it goes to a process of its own, which is started
 * with the first question, started anew after it was lost, and ended with the program.
 */
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BuildElsewhere } from '../contract/build-schemas.ts';
import type { DomainChange } from '../contract/domain-schemas.ts';
import { FailureError } from '../contract/failure.ts';
import type { Store } from '../contract/store-schemas.ts';
import { turn } from '../store/turns.ts';
import type { StoreClient } from './store-contract.ts';
import { StoreReader, unavailable, type StoreReaderOptions } from './store-reader.ts';
import { Topic, type Unsubscribe } from './topic.ts';

export interface KnownStoreOptions extends StoreReaderOptions {
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The first restart comes at once; when one loss follows the other, each waits twice as long. */
const firstRestMs = 1000;
const longestRestMs = 30_000;
/** Each process counts on from here, so that no revision is told twice; the last one is that it was lost. */
const revisionsEach = 2 ** 32;
/** A process that lived this long was well. */
const healthyMs = 60_000;

export class KnownStore {
  readonly root: string;
  readonly name: string;
  readonly #options: KnownStoreOptions;
  readonly #changed = new Topic<DomainChange>();
  readonly #closing = new AbortController();
  #reader: StoreReader | null = null;
  #losses = 0;
  #restUntilMs = 0;
  #processes = 0;
  #unfollow: AbortController | null = null;

  constructor(root: string, options: KnownStoreOptions) {
    this.root = root;
    this.name = basename(root) || root;
    this.#options = options;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#unfollow?.abort();
    await this.#reader?.close();
  }

  /** Throws FailureError where the store can't be read, or whatever else the question throws. */
  async ask<T>(question: (client: StoreClient) => Promise<T>): Promise<T> {
    // Starting a process takes a while of this one's time: one of them in a turn, however many are asked.
    if (this.pid === null) await turn();
    if (this.#closing.signal.aborted)
      throw new FailureError(unavailable(`${this.root} was closed meanwhile.`));
    return await this.#running().ask(question);
  }

  /** Fires when the process that now answers is lost. */
  get lost(): AbortSignal {
    return this.#running().lost;
  }

  /** Of the process that reads it; null where none runs. */
  get pid(): number | null {
    return this.#reader?.failure === null ? (this.#reader.pid ?? null) : null;
  }

  async summary(): Promise<Store> {
    const { root, name } = this;
    try {
      return await this.ask(async ({ summary }) => await summary());
    } catch (error) {
      if (!(error instanceof FailureError)) throw error;
      return { state: 'offline', root, name, failure: error.failure };
    }
  }

  /** Of whatever program; none that is known while the store can't be read. */
  async builders(): Promise<readonly BuildElsewhere[]> {
    try {
      return await this.ask(async ({ builders }) => await builders());
    } catch (error) {
      if (!(error instanceof FailureError)) throw error;
      return [];
    }
  }

  async state(): Promise<DomainChange> {
    try {
      return await this.ask(async ({ state }) => await state());
    } catch (error) {
      if (!(error instanceof FailureError)) throw error;
      return this.#offline();
    }
  }

  /** Something changed in it, or may have: what is asked after this knows. */
  touch(): void {
    if (this.pid === null) return;
    this.ask(async ({ touch }) => await touch()).catch(() => undefined);
  }

  /** Calls with each change. As long as somebody watches, the store is looked at when it changes. */
  watch(listener: (change: DomainChange) => void): Unsubscribe {
    const release = this.#changed.subscribe(listener);
    if (this.#unfollow === null) void this.#follow().catch(this.#options.onBug);
    return () => {
      release();
      if (this.#changed.listeners === 0) this.#unfollow?.abort();
    };
  }

  get listeners(): number {
    return this.#changed.listeners;
  }

  #running(): StoreReader {
    const last = this.#reader;
    if (last !== null && last.failure === null) return last;
    if (this.#closing.signal.aborted) throw new Error(`${this.root} is asked something after its end`);
    // One that is stuck inside the kernel is enough.
    if (last?.failure && (!last.isGone || performance.now() < this.#restUntilMs)) {
      throw new FailureError(last.failure);
    }
    const reader = new StoreReader(this.root, this.#processes * revisionsEach, this.#options);
    this.#processes += 1;
    this.#reader = reader;
    reader.lost.addEventListener('abort', () => this.#rest(reader), { once: true });
    return reader;
  }

  #rest({ startedAtMs }: StoreReader): void {
    const now = performance.now();
    this.#losses = now - startedAtMs > healthyMs ? 1 : this.#losses + 1;
    const rest = this.#losses === 1 ? 0 : firstRestMs * 2 ** (this.#losses - 2);
    this.#restUntilMs = now + Math.min(rest, longestRestMs);
  }

  async #follow(): Promise<void> {
    let known: number | null = null;
    const tell = (change: DomainChange): void => {
      const isNew = known !== null && known !== change.revision;
      known = change.revision;
      if (isNew) this.#changed.publish(change);
    };
    while (this.#changed.listeners > 0 && !this.#closing.signal.aborted) {
      const leaving = new AbortController();
      this.#unfollow = leaving;
      try {
        const { root } = this;
        const reader = this.#running();
        const signal = AbortSignal.any([leaving.signal, reader.lost]);
        for await (const change of await reader.ask(
          async ({ domain }) => await domain.watch({ root }, { signal }),
        )) {
          tell(change);
        }
        // A stream that ends without an error ended with its process.
        await delay(0);
      } catch (error) {
        if (leaving.signal.aborted) continue;
        if (!(error instanceof FailureError) && this.pid !== null) this.#options.onBug(error);
      }
      if (leaving.signal.aborted) continue;
      known ??= 0;
      tell(this.#offline());
      await delay(Math.max(100, this.#restUntilMs - performance.now()), null, {
        ref: false,
        signal: this.#closing.signal,
      }).catch(() => undefined);
    }
    this.#unfollow = null;
  }

  #offline(): DomainChange {
    const revision = this.#processes * revisionsEach;
    return { revision, measuredAtMs: this.#options.now(), online: false };
  }
}
