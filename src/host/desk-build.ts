/**
 * One build on the desk: what it is to be, where it stands, and everybody who watches it. It belongs to the
 * program and not to the page that started it: watchers come and go without touching it.
 */
import type { Build, BuildEvent, BuildPhase } from '../contract/build-schemas.ts';
import { failure, type Failure, type Outcome } from '../contract/failure.ts';
import type { BuildRequest, BuildResult } from '../production/build-protocol.ts';
import {
  startBuild,
  type BuildEvent as SupervisedEvent,
  type RunningBuild,
} from '../production/build-supervisor.ts';
import type { Domain } from '../store/domain.ts';
import { otherHolder, stagedBy } from './building.ts';
import { EventStream } from './event-stream.ts';
import { storeOutcome } from './stores.ts';
import { Topic } from './topic.ts';

/** What is to be built, once it is known: a sample has to be made first. */
export interface BuildMaterials {
  readonly domain: Domain;
  readonly request: Omit<BuildRequest, 'domain'>;
}

export type BuildIntention = Pick<
  Build,
  'id' | 'kind' | 'root' | 'checkpoint' | 'representation' | 'component' | 'modelId' | 'revision'
>;

export interface DeskBuildOptions {
  readonly now: () => number;
  /** Throws the signal's reason when it fires. */
  readonly prepare: (signal: AbortSignal) => Promise<Outcome<BuildMaterials>>;
  readonly firstPhase: BuildPhase;
}

const nothingYet = {
  pid: null,
  endedAtMs: null,
  progress: null,
  waitingFor: null,
  warnings: [],
  cancelling: false,
  result: null,
};

export class DeskBuild {
  readonly events = new Topic<BuildEvent>();
  /** Resolves when the build is over and its process gone. Never rejects. */
  readonly ended: Promise<Build>;
  readonly #options: DeskBuildOptions;
  readonly #cancelling = new AbortController();
  #running: RunningBuild | null = null;
  #domain: Domain | null = null;
  #state: Build;

  constructor(intention: BuildIntention, options: DeskBuildOptions) {
    this.#options = options;
    const startedAtMs = options.now();
    this.#state = {
      ...intention,
      ...nothingYet,
      startedAtMs,
      phases: [{ phase: options.firstPhase, startedAtMs }],
    };
    this.ended = this.#run();
  }

  get state(): Build {
    return this.#state;
  }

  /** Asking again, or too late, changes nothing. */
  cancel(): void {
    if (this.#state.result !== null || this.#state.cancelling) return;
    this.#change({ cancelling: true });
    this.#cancelling.abort(new Error('the build was cancelled'));
    this.#running?.cancel();
  }

  watch(signal: AbortSignal | undefined): EventStream<BuildEvent> {
    const unsubscribe = this.events.subscribe((event) => {
      // A phase that has ended makes no progress.
      if (event.type === 'state' || event.type === 'result') stream.discard('progress');
      stream.push(event, event.type === 'progress' || event.type === 'state' ? event.type : null);
      if (event.type === 'result') stream.end();
    });
    const stream = new EventStream<BuildEvent>({ signal, onClose: unsubscribe });
    stream.push({ type: 'state', build: this.#state }, 'state');
    if (this.#state.result !== null) {
      stream.push({ type: 'result', build: this.#state });
      stream.end();
    }
    return stream.start();
  }

  async #run(): Promise<Build> {
    const result = await this.#resultOf().catch((error: unknown) =>
      this.#withoutProcess('failed', bugFailure(error)),
    );
    const leftBehind = await this.#leftBehind();
    const { status, key, artifactBytes, elapsedMs, failure } = result;
    this.#state = {
      ...this.#state,
      endedAtMs: this.#options.now(),
      progress: null,
      waitingFor: null,
      result: { status, key, artifactBytes, elapsedMs, failure, leftBehind },
    };
    this.events.publish({ type: 'result', build: this.#state });
    return this.#state;
  }

  async #resultOf(): Promise<BuildResult> {
    const { signal } = this.#cancelling;
    const prepared = await this.#prepare(signal);
    if (signal.aborted) return this.#withoutProcess('cancelled', null);
    if (!prepared.ok) return this.#withoutProcess('failed', prepared.failure);
    const { domain, request } = prepared.value;
    this.#domain = domain;
    this.#running = startBuild(
      { ...request, domain: domain.root },
      { onEvent: (event) => this.#take(event, domain) },
    );
    this.#change({
      root: domain.root,
      checkpoint: request.checkpoint,
      modelId: request.modelId ?? null,
      revision: request.revision ?? null,
      pid: this.#running.pid ?? null,
    });
    return await this.#running.result;
  }

  async #prepare(signal: AbortSignal): Promise<Outcome<BuildMaterials>> {
    try {
      return await this.#options.prepare(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      return { ok: false, failure: cancelledBefore };
    }
  }

  #withoutProcess(status: 'cancelled' | 'failed', failure: Failure | null): BuildResult {
    const elapsedMs = Math.max(0, this.#options.now() - this.#state.startedAtMs);
    return { status, key: null, identity: null, artifactBytes: null, elapsedMs, failure };
  }

  /** Read from the store and not assumed. A store that can't be read now tells nothing. */
  async #leftBehind(): Promise<readonly string[]> {
    const [domain, pid] = [this.#domain, this.#running?.pid];
    if (domain === null) return [];
    const staged = await storeOutcome('', async () => await stagedBy(domain, pid));
    return staged.ok ? (staged.value ?? []) : [];
  }

  #take(event: SupervisedEvent, domain: Domain): void {
    switch (event.type) {
      case 'phase': {
        const { phase } = event;
        const waitingFor = phase === 'waiting-for-admission' ? this.#admissionHolder(domain) : null;
        const phases = [...this.#state.phases, { phase, startedAtMs: this.#options.now() }];
        this.#change({ phases, progress: null, waitingFor });
        return;
      }
      case 'progress': {
        const { bytes: doneBytes, totalBytes, bytesPerSecond, secondsLeft } = event;
        const progress = { doneBytes, totalBytes, bytesPerSecond, secondsLeft };
        this.#state = { ...this.#state, progress };
        this.events.publish({ type: 'progress', progress });
        return;
      }
      case 'warning':
        this.#state = { ...this.#state, warnings: [...this.#state.warnings, event.message] };
        this.events.publish(event);
    }
  }

  #admissionHolder(domain: Domain): string | null {
    const words = otherHolder(domain, this.#running?.pid);
    return words === '' ? null : words.replace(/^, /, '');
  }

  #change(change: Partial<Build>): void {
    this.#state = { ...this.#state, ...change };
    this.events.publish({ type: 'state', build: this.#state });
  }
}

/** A build that met a bug must still end, and say so. */
function bugFailure(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  return failure('production', 'producer_failed', `The build met a bug in Weightroom: ${message}`, {
    details: { bug: true },
  });
}

/** Never shown: a build that was cancelled says so by its status. */
const cancelledBefore = failure(
  'production',
  'producer_failed',
  'The build was cancelled before it started.',
);
