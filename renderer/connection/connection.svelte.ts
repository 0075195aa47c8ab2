/**
 * The connection to the host, kept up: opened, watched, opened again after a pause that doubles up to a cap.
 *
 * Whatever is live registers a piece of work with `live`. It runs each time the connection opens, is aborted
 * each time it goes, and so everything is asked for anew after a loss without anybody having to think of it.
 */
import type { DeskClient } from '../../src/contract/contract.ts';
import { failureOf } from '../../src/contract/call-failure.ts';
import { NotSignedInError, type OpenTransport, type Transport } from './transport.ts';

export type ConnectionState = 'connecting' | 'open' | 'lost' | 'refused';

export type LiveWork = (client: DeskClient, signal: AbortSignal) => Promise<void>;

const firstPauseMs = 300;
const longestPauseMs = 10_000;
/** Live work that broke off while the connection stands. */
const againMs = 2000;

/** There is no connection now: the call was not made. */
export class NotConnectedError extends Error {
  constructor() {
    super('There is no connection to Weightroom now.');
  }
}

export class Connection {
  #state = $state<ConnectionState>('connecting');
  #lostAtMs = $state<number | null>(null);
  #nextTryAtMs = $state<number | null>(null);
  #regainedAtMs = $state<number | null>(null);
  readonly #openTransport: OpenTransport;
  readonly #live = new Set<{ work: LiveWork; abort: AbortController | null }>();
  #transport: Transport | null = null;
  #attempts = 0;
  #wake: (() => void) | null = null;

  constructor(openTransport: OpenTransport) {
    this.#openTransport = openTransport;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** When it was lost; null while it is there. */
  get lostAtMs(): number | null {
    return this.#lostAtMs;
  }

  get nextTryAtMs(): number | null {
    return this.#nextTryAtMs;
  }

  /** When it came back after a loss; null where it was never lost. */
  get regainedAtMs(): number | null {
    return this.#regainedAtMs;
  }

  /** Throws NotConnectedError. */
  get client(): DeskClient {
    if (this.#transport === null) throw new NotConnectedError();
    return this.#transport.client;
  }

  /** What only the desktop app can do; null in a browser and while there is no connection. */
  get desktop(): Transport['desktop'] {
    return this.#transport?.desktop ?? null;
  }

  start(): void {
    void this.#keepUp();
    addEventListener('online', () => this.retryNow());
    // After sleep a browser may keep the page waiting for a pause that is long over.
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') this.retryNow();
    });
  }

  retryNow(): void {
    this.#wake?.();
  }

  /** Runs `work` now and after each reconnection, until what it returns is called. */
  live(work: LiveWork): () => void {
    const entry = { work, abort: null };
    this.#live.add(entry);
    if (this.#transport !== null) this.#run(entry, this.#transport);
    return () => {
      this.#live.delete(entry);
      (entry.abort as AbortController | null)?.abort();
    };
  }

  #run(entry: { work: LiveWork; abort: AbortController | null }, transport: Transport): void {
    const abort = new AbortController();
    entry.abort = abort;
    entry.work(transport.client, abort.signal).catch((error: unknown) => {
      // The connection's own end is handled below, and a failure is an answer. Anything else is tried again.
      if (abort.signal.aborted || failureOf(error) !== null) return;
      setTimeout(() => {
        if (!abort.signal.aborted && this.#transport === transport) this.#run(entry, transport);
      }, againMs);
    });
  }

  async #keepUp(): Promise<never> {
    for (;;) {
      try {
        const transport = await this.#openTransport();
        this.#opened(transport);
        await transport.closed;
        this.#closed();
      } catch (error) {
        if (this.#state !== 'connecting') this.#lostAtMs ??= Date.now();
        if (error instanceof NotSignedInError) this.#state = 'refused';
        else if (this.#attempts > 0 || this.#state !== 'connecting') this.#state = 'lost';
      }
      const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#attempts);
      this.#attempts += 1;
      this.#nextTryAtMs = Date.now() + pauseMs;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pauseMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
      this.#nextTryAtMs = null;
    }
  }

  #opened(transport: Transport): void {
    this.#transport = transport;
    this.#attempts = 0;
    if (this.#lostAtMs !== null) this.#regainedAtMs = Date.now();
    this.#lostAtMs = null;
    this.#state = 'open';
    for (const entry of this.#live) this.#run(entry, transport);
  }

  #closed(): void {
    this.#transport = null;
    this.#lostAtMs = Date.now();
    this.#state = 'lost';
    for (const entry of this.#live) entry.abort?.abort();
  }
}
