/** The known stores: each is watched for changes on its disk, and the list asked for anew when one comes. */
import type { Store, StorePlan } from '../../src/contract/store-schemas.ts';
import type { Connection } from '../connection/connection.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import type { Problem } from './problem.ts';

export class Stores {
  readonly #connection: Connection;
  readonly #list: LiveValue<readonly Store[]>;
  #revisions = $state.raw<ReadonlyMap<string, number>>(new Map());
  readonly #watched = new Map<string, () => void>();

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#list = new LiveValue(connection, (client) => client.stores.list(), 300);
  }

  get all(): readonly Store[] {
    return this.#list.value ?? [];
  }

  get isKnown(): boolean {
    return this.#list.value !== null;
  }

  get isStale(): boolean {
    return this.#list.isStale;
  }

  get atMs(): number | null {
    return this.#list.atMs;
  }

  get problem(): Problem | null {
    return this.#list.problem;
  }

  find(root: string): Store | undefined {
    return this.all.find((store) => store.root === root);
  }

  /** Changes whenever something in the store did; 0 until it is known. */
  revisionOf(root: string): number {
    return this.#revisions.get(root) ?? 0;
  }

  async refresh(): Promise<void> {
    await this.#list.refresh();
    const roots = new Set(this.all.map(({ root }) => root));
    for (const [root, stop] of this.#watched) {
      if (roots.has(root)) continue;
      stop();
      this.#watched.delete(root);
    }
    for (const root of roots) {
      if (!this.#watched.has(root)) this.#watched.set(root, this.#watch(root));
    }
  }

  async open(root: string): Promise<Store> {
    const store = await this.#connection.client.stores.open({ root });
    await this.refresh();
    return store;
  }

  async create(plan: StorePlan): Promise<{ store: Store; existing: boolean; notice: string | null }> {
    const created = await this.#connection.client.stores.create(plan);
    await this.refresh();
    return created;
  }

  async forget(root: string): Promise<void> {
    await this.#connection.client.stores.forget({ root });
    await this.refresh();
  }

  #watch(root: string): () => void {
    return this.#connection.live(async (client, signal) => {
      for await (const change of await client.domain.watch({ root }, { signal })) {
        const isNew = this.revisionOf(root) !== change.revision;
        this.#revisions = new Map(this.#revisions).set(root, change.revision);
        if (isNew) void this.#list.refresh();
      }
    });
  }
}
