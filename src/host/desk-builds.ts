/**
 * The builds that this program runs and ran, by id, the newest first in every list. They outlive their pages
 * and end with the program: closing cancels what runs and waits until it is gone.
 */
import { randomUUID } from 'node:crypto';
import type { Build, BuildEvent } from '../contract/build-schemas.ts';
import { failure, FailureError } from '../contract/failure.ts';
import { DeskBuild, type BuildIntention, type DeskBuildOptions } from './desk-build.ts';
import type { EventStream } from './event-stream.ts';
import { Topic } from './topic.ts';

/** Ended builds beyond this are dropped, the oldest first. */
const mostEnded = 200;

export class DeskBuilds {
  /** A build started, entered a phase, ended or was dismissed. */
  readonly changed = new Topic<Build>();
  /** Once for each build, when it is over. */
  readonly ended = new Topic<Build>();
  readonly #builds = new Map<string, DeskBuild>();

  start(intention: Omit<BuildIntention, 'id'>, options: DeskBuildOptions): Build {
    const build = new DeskBuild({ ...intention, id: randomUUID() }, options);
    const { id } = build.state;
    this.#builds.set(id, build);
    build.events.subscribe((event) => {
      if (event.type === 'state' || event.type === 'result') this.changed.publish(event.build);
    });
    void build.ended.then((state) => {
      this.ended.publish(state);
      this.#dropOldest();
    });
    this.changed.publish(build.state);
    return build.state;
  }

  list(): Build[] {
    return [...this.#builds.values()].map(({ state }) => state).reverse();
  }

  /** The id of the build that this process runs; null for a stranger's. */
  ofProcess(pid: number): string | null {
    if (pid === 0) return null;
    return this.list().find((build) => build.pid === pid && build.result === null)?.id ?? null;
  }

  /** Throws FailureError for an id that is not known, as the others do. */
  watch(id: string, signal: AbortSignal | undefined): EventStream<BuildEvent> {
    return this.#get(id).watch(signal);
  }

  cancel(id: string): void {
    this.#get(id).cancel();
  }

  /** Only what is over can be dismissed. */
  dismiss(id: string): void {
    const { state } = this.#get(id);
    if (state.result === null) {
      throw new FailureError(
        failure('configuration', 'invalid_config', 'This build still runs. Cancel it first.', {
          retryable: true,
        }),
      );
    }
    this.#builds.delete(id);
    this.changed.publish(state);
  }

  async close(): Promise<void> {
    for (const build of this.#builds.values()) build.cancel();
    await Promise.all([...this.#builds.values()].map(async ({ ended }) => await ended));
  }

  #get(id: string): DeskBuild {
    const build = this.#builds.get(id);
    if (build !== undefined) return build;
    throw new FailureError(
      failure(
        'configuration',
        'invalid_config',
        'There is no such build: it was dismissed, or the program was started anew since.',
        { details: { id } },
      ),
    );
  }

  #dropOldest(): void {
    const ended = [...this.#builds.values()].filter(({ state }) => state.result !== null);
    for (const { state } of ended.slice(0, -mostEnded)) this.#builds.delete(state.id);
  }
}
