/**
 * Something that was asked for and is asked for again when it may have changed. What was last known stays
 * while a newer answer is on its way, and stays, marked as old, where there is none.
 */
import type { DeskClient } from '../../src/contract/contract.ts';
import type { Connection } from '../connection/connection.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

export class LiveValue<T> {
  #value = $state.raw<T | null>(null);
  #problem = $state.raw<Problem | null>(null);
  #atMs = $state<number | null>(null);
  #isLoading = $state(false);
  readonly #connection: Connection;
  readonly #ask: (client: DeskClient) => Promise<T>;
  readonly #restMs: number;
  #again = false;

  /** `restMs`: at least this long between two questions, however often it changes. */
  constructor(connection: Connection, ask: (client: DeskClient) => Promise<T>, restMs = 0) {
    this.#connection = connection;
    this.#ask = ask;
    this.#restMs = restMs;
  }

  get value(): T | null {
    return this.#value;
  }

  get problem(): Problem | null {
    return this.#problem;
  }

  /** When the value was received. */
  get atMs(): number | null {
    return this.#atMs;
  }

  get isLoading(): boolean {
    return this.#isLoading;
  }

  /** There is a value, but nobody keeps it up to date now. */
  get isStale(): boolean {
    return this.#value !== null && (this.#connection.state !== 'open' || this.#problem !== null);
  }

  set(value: T): void {
    this.#value = value;
    this.#atMs = Date.now();
    this.#problem = null;
  }

  /** One question at a time; one that comes meanwhile is asked after it. */
  async refresh(): Promise<void> {
    if (this.#isLoading) {
      this.#again = true;
      return;
    }
    this.#isLoading = true;
    try {
      do {
        this.#again = false;
        await this.#askOnce();
        if (this.#restMs > 0) await new Promise((resolve) => setTimeout(resolve, this.#restMs));
      } while (this.#again);
    } finally {
      this.#isLoading = false;
    }
  }

  async #askOnce(): Promise<void> {
    if (this.#connection.state !== 'open') return;
    try {
      this.set(await this.#ask(this.#connection.client));
    } catch (error) {
      // A lost connection says so itself, in one place, and asks again when it is back.
      if (this.#connection.state === 'open') this.#problem = problemOf(error);
    }
  }
}
