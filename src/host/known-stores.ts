/**
 * The stores that this program knows: those that the settings name. They are opened lazily and watched from
 * then on; what another process adds to or takes off the settings is followed.
 */
import { failure, FailureError } from '../contract/failure.ts';
import { KnownStore, type KnownStoreOptions } from './known-store.ts';
import type { SettingsFile } from './settings-file.ts';
import { Topic, type Unsubscribe } from './topic.ts';

export class KnownStores {
  /** The list changed; what changes in a store is told by its own topic. */
  readonly changed = new Topic<undefined>();
  readonly #settings: SettingsFile;
  readonly #options: KnownStoreOptions;
  readonly #stores = new Map<string, KnownStore>();
  readonly #closings = new Set<Promise<void>>();
  readonly #release: Unsubscribe;

  constructor(settings: SettingsFile, options: KnownStoreOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#release = settings.changed.subscribe(() => this.#follow());
  }

  /** Waits until their processes are gone. */
  async close(): Promise<void> {
    this.#release();
    for (const root of [...this.#stores.keys()]) this.#drop(root);
    await Promise.all(this.#closings);
  }

  /** In the order in which they were opened. */
  all(): KnownStore[] {
    return this.#settings.current.stores.map((root) => this.#keep(root));
  }

  /** Has each looked at now, so that the first page finds its numbers ready. */
  prepare(): void {
    for (const store of this.all()) store.summary().catch(this.#options.onBug);
  }

  /** Throws FailureError for a root that is not on the list. */
  get(root: string): KnownStore {
    if (this.#settings.current.stores.includes(root)) return this.#keep(root);
    throw new FailureError(
      failure(
        'configuration',
        'invalid_config',
        `${root} is not one of the stores that are open here. Open it first.`,
        { details: { root } },
      ),
    );
  }

  /** `path` is absolute. Throws FailureError where there is no usable store, or the settings can't be saved. */
  async open(path: string): Promise<KnownStore> {
    if (this.#settings.current.stores.includes(path)) {
      const known = this.#keep(path);
      // A path that became a link to another store is that one's now.
      if ((await known.ask(async ({ root }) => await root())) === path) return known;
    }
    const opened = new KnownStore(path, this.#options);
    try {
      const root = await opened.ask(async (client) => await client.root());
      if (root === path && !this.#stores.has(path)) this.#stores.set(path, opened);
      return await this.remember(root);
    } finally {
      if (this.#stores.get(path) !== opened) this.#close(opened);
    }
  }

  /** Throws FailureError where the settings can't be saved. */
  async remember(root: string): Promise<KnownStore> {
    if (!this.#settings.current.stores.includes(root)) {
      await this.#settings.update((settings) => ({
        ...settings,
        stores: [...new Set([...settings.stores, root])],
      }));
    }
    return this.#keep(root);
  }

  /** Forgetting what is not known succeeds. */
  async forget(root: string): Promise<boolean> {
    if (!this.#settings.current.stores.includes(root)) return false;
    await this.#settings.update((settings) => ({
      ...settings,
      stores: settings.stores.filter((known) => known !== root),
    }));
    return true;
  }

  /** Calls when the list changes or anything in any of the stores does. As long as somebody watches, they are looked at. */
  watchAll(listener: () => void): Unsubscribe {
    const releases = new Map<KnownStore, Unsubscribe>();
    const follow = (): void => {
      const stores = new Set(this.all());
      for (const [store, release] of releases) {
        if (stores.has(store)) continue;
        release();
        releases.delete(store);
      }
      for (const store of stores) {
        if (!releases.has(store)) releases.set(store, store.watch(listener));
      }
    };
    const release = this.changed.subscribe(() => {
      follow();
      listener();
    });
    follow();
    return () => {
      release();
      for (const releaseStore of releases.values()) releaseStore();
    };
  }

  #keep(root: string): KnownStore {
    const known = this.#stores.get(root);
    if (known !== undefined) return known;
    const store = new KnownStore(root, this.#options);
    this.#stores.set(root, store);
    return store;
  }

  #drop(root: string): void {
    const store = this.#stores.get(root);
    this.#stores.delete(root);
    if (store !== undefined) this.#close(store);
  }

  #close(store: KnownStore): void {
    const closing = store.close().finally(() => this.#closings.delete(closing));
    this.#closings.add(closing);
  }

  #follow(): void {
    const listed = new Set(this.#settings.current.stores);
    for (const root of [...this.#stores.keys()]) if (!listed.has(root)) this.#drop(root);
    this.changed.publish(undefined);
  }
}
