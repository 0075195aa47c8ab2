/**
 * The two sides of a build: a producer that knows how to make exactly one artifact, and the writer that is
 * all it gets of the store. Source: host-weight store specification, section 6.
 */
import type { Progress, Segment } from '#native';
import type { JsonValue } from './canonical-json.ts';
import type { Dtype } from './dtypes.ts';
import type { ArtifactIdentity } from './identity.ts';
import type { TensorKind } from './manifest.ts';

export interface TensorSpec {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  readonly kind: TensorKind;
  /** `weight` unless the restorer needs to tell it apart. */
  readonly role: string;
}

/**
 * One payload file, filled from front to back in the order of `specs` (sorted by name). Every byte of every
 * tensor is written exactly once: what is missing at close() or written past a tensor's end fails the build.
 */
export interface PayloadFile {
  readonly specs: readonly TensorSpec[];
  /** Append bytes of the named tensor, which must be the one whose turn it is. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** Append source ranges, cast on the way. Together they may span several tensors in order. */
  copy(segments: readonly Segment[], progress?: Progress): Promise<void>;
  close(): Promise<void>;
}

export interface ArtifactWriter {
  /** Checks capacity, preallocates and writes the header. `name` is a safe basename that ends in .safetensors. */
  openPayload(name: string, specs: readonly TensorSpec[]): Promise<PayloadFile>;
}

export interface ProductionMetadata {
  /** Must equal the identity's producer.manifest_schema and producer.restorer_schema. */
  readonly producerSchema: string;
  readonly restorerSchema: string;
  readonly formatMetadata: JsonValue;
}

/** Only `single_process` is supported, as in the published package. */
export type CoordinationScope = 'single_process' | 'group_cohort' | 'artifact_bundle';

export interface WeightProducer {
  readonly coordinationScope: CoordinationScope;
  /** Exactly the identity that is asked for, or the build is refused. */
  readonly outputs: readonly ArtifactIdentity[];
  /** Whether it may run before a model is loaded; `resolve` uses no other. */
  readonly lookupPhase: 'pre_load_safe' | 'post_load_only';
  /** Throws on failure. When `signal` fires it should stop soon and throw the signal's reason. */
  produce(writer: ArtifactWriter, signal: AbortSignal): Promise<ProductionMetadata>;
}
