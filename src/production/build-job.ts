/**
 * One build from request to result: inspect, plan, fingerprint, identify, get or build. Runs in the build
 * process, but knows nothing of processes. What is refused is refused before any weight is read.
 */
import { newProgress, type Progress } from '#native';
import { formatBytes } from '../contract/bytes.ts';
import { failure, FailureError, type Failure } from '../contract/failure.ts';
import { getOrBuild, type StoreResult } from '../store/build.ts';
import { deadlineIn, monotonicMs } from '../store/clock.ts';
import { openDomain, type Domain } from '../store/domain.ts';
import type { ArtifactIdentity } from '../store/identity.ts';
import { planArtifact } from './artifact-plan.ts';
import type { BuildPhase, BuildRequest, BuildResult, ChildEvent } from './build-protocol.ts';
import { checkpointIdentity, defaultComponent } from './checkpoint-identity.ts';
import { CheckpointProducer } from './checkpoint-producer.ts';
import { problemsFailure } from './checkpoint-problem.ts';
import { inspectCheckpoint } from './checkpoint.ts';
import { sourceFingerprint } from './fingerprint.ts';
import { provenanceOf } from './provenance.ts';

export interface JobContext {
  readonly signal: AbortSignal;
  readonly emit: (event: ChildEvent) => void;
}

/** With a hundred thousand tensors, reading their manifest on top of what wrote it would be the peak. */
function collectGarbage(): void {
  (globalThis as { gc?: () => void }).gc?.();
}

/** How often progress is told. */
const progressEveryMs = 200;

export async function runBuild(request: BuildRequest, context: JobContext): Promise<BuildResult> {
  const startedMs = monotonicMs();
  const job = new Job(request, context);
  let ended: Pick<BuildResult, 'status' | 'failure' | 'artifactBytes'>;
  try {
    ended = conclude(await job.run());
  } catch (error) {
    if (context.signal.aborted && error === context.signal.reason)
      ended = { ...nothing, status: 'cancelled' };
    else if (error instanceof FailureError) ended = { ...nothing, status: 'failed', failure: error.failure };
    else throw error;
  }
  const { identity } = job;
  return {
    ...ended,
    key: identity?.key ?? null,
    identity: identity?.document ?? null,
    elapsedMs: Math.round(monotonicMs() - startedMs),
  };
}

const nothing = { failure: null, artifactBytes: null };

/** Takes what there is to tell from the store's result; the lease was only needed for that. */
function conclude(result: StoreResult): Pick<BuildResult, 'status' | 'failure' | 'artifactBytes'> {
  switch (result.status) {
    case 'hit':
    case 'built':
    case 'joined': {
      const { lease } = result;
      const artifactBytes = lease.manifest.files.reduce((total, { size }) => total + size, 0);
      lease.close();
      return { status: result.status, artifactBytes, failure: null };
    }
    case 'miss':
      return { ...nothing, status: 'failed', failure: vanished() };
    case 'timeout':
      return { ...nothing, status: 'timeout', failure: result.failure };
    case 'invalid':
    case 'failed':
      return { ...nothing, status: 'failed', failure: result.failure };
  }
}

function vanished(): Failure {
  return failure(
    'lookup',
    'local_miss',
    'The artifact was built and then removed by somebody before it could be opened. Build it again.',
    { retryable: true },
  );
}

/** What this store can never hold, whatever is removed from it, is refused before its weights are read. */
function requirePossible({ capacity }: Domain, tensorBytes: number): void {
  const { maxArtifactBytes, maxStoreBytes } = capacity;
  const limit = Math.min(maxArtifactBytes ?? Infinity, maxStoreBytes ?? Infinity);
  if (tensorBytes <= limit) return;
  const [code, what] =
    limit === maxArtifactBytes
      ? (['artifact_too_large', 'for one artifact'] as const)
      : (['store_limit_exceeded', 'for everything in it'] as const);
  throw new FailureError(
    failure(
      'capacity',
      code,
      `the tensors alone take ${formatBytes(tensorBytes)}; this store allows ${formatBytes(limit)} ${what}, and its policy never changes. Use a store with a larger limit.`,
      { retryable: true, details: { tensor_bytes: tensorBytes, limit_bytes: limit } },
    ),
  );
}

interface PreparedBuild {
  readonly identity: ArtifactIdentity;
  readonly producer: CheckpointProducer;
  /** That the producer will write, and `written` counts. */
  readonly tensorBytes: number;
  readonly written: Progress;
}

class Job {
  identity: ArtifactIdentity | null = null;
  readonly #request: BuildRequest;
  readonly #context: JobContext;

  constructor(request: BuildRequest, context: JobContext) {
    this.#request = request;
    this.#context = context;
  }

  /** Throws FailureError, or the signal's reason. */
  async run(): Promise<StoreResult> {
    const { domain: root, timeoutMs, validation } = this.#request;
    const { signal, emit } = this.#context;

    this.#enter('inspecting');
    const domain = await openDomain(root);
    if (!domain.ok) throw new FailureError(domain.failure);
    const { identity, producer, tensorBytes, written } = await this.#prepare(domain.value);
    this.identity = identity;

    const ticker = new Ticker(emit);
    try {
      return await getOrBuild(domain.value, identity, producer, {
        ...(validation ? { validation } : {}),
        deadline: timeoutMs === null || timeoutMs === undefined ? null : deadlineIn(timeoutMs),
        signal,
        onPhase: (phase, work) => {
          ticker.stop();
          this.#enter(phase);
          if (phase === 'producing') ticker.start(phase, tensorBytes, written);
          else if (work !== undefined) ticker.start(phase, work.totalBytes, work.progress);
        },
        onCommitted: collectGarbage,
        warn: (message) => emit({ type: 'warning', message }),
      });
    } finally {
      ticker.stop();
    }
  }

  /** What is inspected and planned stays in here and in the producer, which lets go of it when it is done. */
  async #prepare(domain: Domain): Promise<PreparedBuild> {
    const { checkpoint: path, representation, component } = this.#request;
    const { signal } = this.#context;
    const inspection = await inspectCheckpoint(path, signal);
    if (!inspection.ok) throw new FailureError(problemsFailure(path, inspection.problems));
    const { checkpoint } = inspection;
    const plan = planArtifact(checkpoint, representation);
    if (!plan.ok) throw new FailureError(plan.failure);
    requirePossible(domain, plan.value.tensorBytes);

    this.#enter('fingerprinting');
    const sourceBytes = checkpoint.files.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
    const fingerprint = await this.#counting('fingerprinting', sourceBytes, (progress) =>
      sourceFingerprint(checkpoint, { progress, signal }),
    );
    const identity = checkpointIdentity({
      provenance: provenanceOf(checkpoint, this.#request),
      fingerprint,
      component: component ?? defaultComponent,
      plan: plan.value,
    });
    const written = newProgress();
    const producer = new CheckpointProducer(identity, plan.value, written);
    return { identity, producer, tensorBytes: plan.value.tensorBytes, written };
  }

  #enter(phase: BuildPhase): void {
    this.#context.emit({ type: 'phase', phase });
  }

  async #counting<T>(
    phase: BuildPhase,
    totalBytes: number,
    work: (progress: Progress) => Promise<T>,
  ): Promise<T> {
    const progress = newProgress();
    const ticker = new Ticker(this.#context.emit);
    ticker.start(phase, totalBytes, progress);
    try {
      return await work(progress);
    } finally {
      ticker.stop();
    }
  }
}

/** Tells how far a phase has come, a few times a second and once when it ends. */
class Ticker {
  readonly #emit: (event: ChildEvent) => void;
  #timer: NodeJS.Timeout | null = null;
  #tell: () => void = () => undefined;

  constructor(emit: (event: ChildEvent) => void) {
    this.#emit = emit;
  }

  start(phase: BuildPhase, totalBytes: number, progress: Progress): void {
    this.#tell = () =>
      this.#emit({ type: 'progress', phase, bytes: Number(Atomics.load(progress, 0)), totalBytes });
    this.#tell();
    this.#timer = setInterval(this.#tell, progressEveryMs);
  }

  stop(): void {
    if (this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#tell();
  }
}
