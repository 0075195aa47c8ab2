/**
 * The builds of this program and those seen elsewhere. The list is asked for whenever the host says that it
 * changed; while a build runs, its own stream carries the progress.
 */
import type { Build, BuildList, BuildRequest } from '../../src/contract/build-schemas.ts';
import type { Connection } from '../connection/connection.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import type { Problem } from './problem.ts';

/** Builds of other processes tell nobody when they begin or end. */
const elsewhereMs = 5000;

export class Builds {
  readonly #connection: Connection;
  readonly #list: LiveValue<BuildList>;
  #progress = $state.raw<ReadonlyMap<string, Build['progress']>>(new Map());
  readonly #watched = new Map<string, () => void>();

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#list = new LiveValue(connection, (client) => client.builds.list(), 100);
  }

  get all(): readonly Build[] {
    const builds = this.#list.value?.builds ?? [];
    return builds.map((build) => {
      const progress = this.#progress.get(build.id);
      return progress === undefined || build.result !== null ? build : { ...build, progress };
    });
  }

  get running(): readonly Build[] {
    return this.all.filter((build) => build.result === null);
  }

  get failed(): readonly Build[] {
    return this.all.filter(({ result }) => result?.status === 'failed' || result?.status === 'timeout');
  }

  get elsewhere(): BuildList['elsewhere'] {
    return this.#list.value?.elsewhere ?? [];
  }

  get isKnown(): boolean {
    return this.#list.value !== null;
  }

  get problem(): Problem | null {
    return this.#list.problem;
  }

  get isStale(): boolean {
    return this.#list.isStale;
  }

  get atMs(): number | null {
    return this.#list.atMs;
  }

  start(): void {
    setInterval(() => {
      if (document.visibilityState === 'visible') void this.refresh();
    }, elsewhereMs);
  }

  async refresh(): Promise<void> {
    await this.#list.refresh();
    this.#watchRunning();
  }

  async begin(request: BuildRequest): Promise<string> {
    const { id } = await this.#connection.client.builds.start(request);
    await this.refresh();
    return id;
  }

  async beginSample(): Promise<string> {
    const { id } = await this.#connection.client.sample.start();
    await this.refresh();
    return id;
  }

  /** The same request again. A sample is begun anew as a whole. */
  async retry(build: Build): Promise<string> {
    await this.dismiss(build.id);
    if (build.kind === 'sample' || build.checkpoint === null) return await this.beginSample();
    const { root, checkpoint, representation, component, modelId, revision } = build;
    return await this.begin({ root, checkpoint, representation, component, modelId, revision });
  }

  async cancel(id: string): Promise<void> {
    await this.#connection.client.builds.cancel({ id });
    await this.refresh();
  }

  async dismiss(id: string): Promise<void> {
    await this.#connection.client.builds.dismiss({ id });
    await this.refresh();
  }

  #watchRunning(): void {
    const running = new Set(this.running.map(({ id }) => id));
    for (const [id, stop] of this.#watched) {
      if (running.has(id)) continue;
      stop();
      this.#watched.delete(id);
      this.#note(id, undefined);
    }
    for (const id of running) {
      if (!this.#watched.has(id)) this.#watched.set(id, this.#watch(id));
    }
  }

  #watch(id: string): () => void {
    return this.#connection.live(async (client, signal) => {
      for await (const event of await client.builds.watch({ id }, { signal })) {
        if (event.type === 'progress') this.#note(id, event.progress);
        else if (event.type === 'state') this.#note(id, event.build.progress);
        if (event.type === 'state' || event.type === 'result') void this.refresh();
      }
    });
  }

  #note(id: string, progress: Build['progress'] | undefined): void {
    const next = new Map(this.#progress);
    if (progress === undefined) next.delete(id);
    else next.set(id, progress);
    this.#progress = next;
  }
}
