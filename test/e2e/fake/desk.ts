/** What a made-up host knows and can be told to do, as plain data that a test changes. */
import type { ActivityEntry, AppEvent, Settings } from '../../../src/contract/app-schemas.ts';
import type { Artifact, VerificationEvent } from '../../../src/contract/artifact-schemas.ts';
import type { Build, BuildList, BuildRequest } from '../../../src/contract/build-schemas.ts';
import type { DomainLocks, InventoryRow } from '../../../src/contract/domain-schemas.ts';
import { failure, type Failure } from '../../../src/contract/failure.ts';
import type { Store, StoreCheck, StorePlan } from '../../../src/contract/store-schemas.ts';
import { checkOf, verificationOf } from './answers.ts';
import { artifact, tensors } from './artifacts.ts';

export interface FakeStore {
  store: Store;
  rows: readonly InventoryRow[];
}

export class FakeDesk {
  stores: FakeStore[] = [];
  builds: Build[] = [];
  elsewhere: BuildList['elsewhere'] = [];
  activity: ActivityEntry[] = [];
  problems: { atMs: number; message: string }[] = [];
  settings: Settings = { theme: 'system', stores: [] };
  locks: DomainLocks = { measuredAtMs: Date.now(), held: [], free: 3 };
  check: (plan: StorePlan) => StoreCheck = checkOf;
  verification: (key: string) => Iterable<VerificationEvent> = verificationOf;
  artifact: (root: string, row: InventoryRow) => Artifact = (root, row) => artifact(root, row, this.tensors);
  /** Calls, by their names in the contract, that get no answer. */
  readonly silent = new Set<string>();
  /** Calls that fail, and how. */
  readonly failures = new Map<string, Failure>();
  tensors = tensors(1200);
  /** Between two events of a verification. */
  paceMs = 50;
  started: BuildRequest[] = [];
  readonly #listeners = new Set<() => void>();
  #events: AppEvent[] = [];
  revision = 1;

  /** Tells every page that something changed. */
  tell(event: AppEvent): void {
    this.#events.push(event);
    for (const listener of this.#listeners) listener();
  }

  /** Something on the disk of every store changed. */
  touch(): void {
    this.revision += 1;
    for (const listener of this.#listeners) listener();
  }

  async *events(signal: AbortSignal | undefined): AsyncGenerator<AppEvent> {
    let seen = this.#events.length;
    yield { type: 'subscribed' };
    while (signal?.aborted !== true) {
      await this.#change(signal);
      for (const event of this.#events.slice(seen)) yield event;
      seen = this.#events.length;
    }
  }

  async *changes(
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ revision: number; measuredAtMs: number; online: boolean }> {
    let told = 0;
    while (signal?.aborted !== true) {
      if (told !== this.revision) yield { revision: this.revision, measuredAtMs: Date.now(), online: true };
      told = this.revision;
      await this.#change(signal);
    }
  }

  #change(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((done) => {
      const end = (): void => {
        this.#listeners.delete(end);
        done();
      };
      this.#listeners.add(end);
      signal?.addEventListener('abort', end, { once: true });
    });
  }

  find(root: string): FakeStore {
    const found = this.stores.find(({ store }) => store.root === root);
    if (found === undefined)
      throw failing(failure('domain', 'domain_unavailable', `${root} is not a known store.`));
    if (found.store.state === 'offline') throw failing(found.store.failure);
    return found;
  }
}

export function failing(value: Failure): Error {
  return Object.assign(new Error(value.message), { failure: value });
}
