/**
 * One subscriber's events, between whoever has something to tell and a connection that takes it at its own
 * pace. What a slow reader has not taken yet is replaced by what is newer where only the newest counts, so a
 * stream never grows without bound.
 *
 * It ends when its source ends it, when the reader returns it, or when the reader's signal fires, and calls
 * `onClose` exactly once: there the source lets go of what belongs to the subscription.
 */

export interface EventStreamOptions {
  /** Fires when the reader is gone. */
  readonly signal?: AbortSignal | undefined;
  readonly onClose?: () => void;
}

interface Queued<T> {
  readonly event: T;
  readonly slot: string | null;
}

interface Reader<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

/** A reader that is this far behind is cut off: it has to ask anew anyway. */
const mostQueued = 10_000;

const done = { done: true, value: undefined } as const;

export class EventStream<T> implements AsyncIterableIterator<T, undefined, void> {
  #queue: Queued<T>[] = [];
  readonly #readers: Reader<T>[] = [];
  readonly #signal: AbortSignal | undefined;
  readonly #onClose: () => void;
  #open = true;
  #error: { readonly reason: unknown } | null = null;

  constructor({ signal, onClose = () => undefined }: EventStreamOptions = {}) {
    this.#signal = signal;
    this.#onClose = onClose;
    signal?.addEventListener('abort', this.#abandon);
  }

  /** To be called when the source is set up: a reader that is gone already closes it at once. */
  start(): this {
    if (this.#signal?.aborted === true) this.#abandon();
    return this;
  }

  /** An event with a slot takes the place of an earlier one with the same slot that nobody has read yet. */
  push(event: T, slot: string | null = null): void {
    if (!this.#open) return;
    const reader = this.#readers.shift();
    if (reader !== undefined) {
      reader.resolve({ done: false, value: event });
      return;
    }
    const at = slot === null ? -1 : this.#queue.findIndex((queued) => queued.slot === slot);
    if (this.#queue.length >= mostQueued) this.#abandon();
    else if (at < 0) this.#queue.push({ event, slot });
    else this.#queue[at] = { event, slot };
  }

  /** Takes back what nobody has read yet and what has become untrue. */
  discard(slot: string): void {
    this.#queue = this.#queue.filter((queued) => queued.slot !== slot);
  }

  /** What is queued is still read. */
  end(): void {
    if (!this.#open) return;
    this.#close();
    for (const reader of this.#readers.splice(0)) reader.resolve(done);
  }

  /** What is queued is still read; then the reader gets `reason` thrown. */
  fail(reason: unknown): void {
    if (!this.#open) return;
    this.#close();
    const reader = this.#readers.shift();
    if (reader === undefined) this.#error = { reason };
    else reader.reject(reason);
    for (const other of this.#readers.splice(0)) other.resolve(done);
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const queued = this.#queue.shift();
    if (queued !== undefined) return Promise.resolve({ done: false, value: queued.event });
    if (this.#error !== null) {
      const { reason } = this.#error;
      this.#error = null;
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- passed on as it came
      return Promise.reject(reason);
    }
    if (!this.#open) return Promise.resolve(done);
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#abandon();
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  readonly #abandon = (): void => {
    this.#queue = [];
    this.#error = null;
    this.end();
  };

  #close(): void {
    this.#open = false;
    this.#signal?.removeEventListener('abort', this.#abandon);
    this.#onClose();
  }
}
