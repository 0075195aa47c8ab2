/**
 * Fills an artifact's payloads from a checkpoint's files, as planned. Each file is opened once, when it is
 * first needed, and must still be the inspected one then and when all is written.
 */
import { native, isSystemError, type Progress, type Segment } from '#native';
import { failure, FailureError } from '../contract/failure.ts';
import { reasonOf } from '../store/faults.ts';
import type { ArtifactIdentity } from '../store/identity.ts';
import type { ArtifactWriter, ProductionMetadata, TensorSpec, WeightProducer } from '../store/producer.ts';
import type { ArtifactPlan, PlannedPayload, PlannedTensor } from './artifact-plan.ts';
import { manifestSchema, restorerSchema } from './checkpoint-identity.ts';
import { openInspected, requireUnchanged, type SourceFile } from './source-file.ts';

export class CheckpointProducer implements WeightProducer {
  readonly coordinationScope = 'single_process';
  readonly lookupPhase = 'pre_load_safe';
  readonly outputs: readonly ArtifactIdentity[];
  /** Let go of once it is carried out: a hundred thousand tensors take their room. */
  #plan: ArtifactPlan | null;
  readonly #progress: Progress;

  /** `progress` counts the bytes of tensors written. */
  constructor(identity: ArtifactIdentity, plan: ArtifactPlan, progress: Progress) {
    this.outputs = [identity];
    this.#plan = plan;
    this.#progress = progress;
  }

  async produce(writer: ArtifactWriter, signal: AbortSignal): Promise<ProductionMetadata> {
    const plan = this.#plan;
    if (plan === null) throw new Error('a checkpoint producer produces once');
    this.#plan = null;
    const stop = (): void => {
      Atomics.store(this.#progress, 1, 1n);
    };
    const sources = new OpenSources();
    signal.addEventListener('abort', stop);
    try {
      for (const payload of plan.payloads) {
        signal.throwIfAborted();
        await this.#fill(writer, payload, sources, signal);
      }
      await requireUnchanged(sources.files);
    } finally {
      signal.removeEventListener('abort', stop);
      sources.close();
    }
    return { producerSchema: manifestSchema, restorerSchema, formatMetadata: {} };
  }

  async #fill(
    writer: ArtifactWriter,
    { name, tensors }: PlannedPayload,
    sources: OpenSources,
    signal: AbortSignal,
  ): Promise<void> {
    const payload = await writer.openPayload(name, tensors.map(specOf));
    // One call for the whole payload: the addon joins small tensors into large writes, watches the cancel
    // flag inside and needs no more memory for it.
    const segments = tensors
      .filter(({ source }) => source.nbytes > 0)
      .map((tensor) => segmentOf(tensor, sources));
    try {
      await payload.copy(segments, this.#progress);
    } catch (error) {
      if (isSystemError(error) && error.code === 'ECANCELED') signal.throwIfAborted();
      await requireUnchanged(sources.files);
      throw readFailure(error, tensors) ?? error;
    }
    await payload.close();
  }
}

function specOf({ source, dtype }: PlannedTensor): TensorSpec {
  return { name: source.name, shape: source.shape, dtype, kind: 'parameter', role: 'weight' };
}

function segmentOf({ source, cast }: PlannedTensor, sources: OpenSources): Segment {
  return { fd: sources.descriptor(source.file), offset: source.offset, length: source.nbytes, cast };
}

/** Of the calls inside a copy only reading the sources is a pread; null where something else failed. */
function readFailure(error: unknown, tensors: readonly PlannedTensor[]): FailureError | null {
  if (!isSystemError(error) || error.syscall !== 'pread') return null;
  const files = [...new Set(tensors.map(({ source }) => source.file.path))];
  const which = files.length === 1 ? files[0] : `One of ${files.length} files, from ${files[0]} on,`;
  const message = `${which} cannot be read: ${reasonOf(error)}. Check the disk, then build again.`;
  return new FailureError(
    failure('canonical_loading', 'canonical_source_failed', message, {
      details: { files, errno: error.code },
    }),
  );
}

/** The checkpoint's files that have been needed so far, each open under one descriptor. */
class OpenSources {
  readonly #descriptors = new Map<SourceFile, number>();

  get files(): Iterable<SourceFile> {
    return this.#descriptors.keys();
  }

  descriptor(file: SourceFile): number {
    const fd = this.#descriptors.get(file) ?? openInspected(file);
    this.#descriptors.set(file, fd);
    return fd;
  }

  close(): void {
    for (const fd of this.#descriptors.values()) native.close(fd);
    this.#descriptors.clear();
  }
}
