/**
 * What a checkpoint will become: payload files, which tensors each holds and what is cast, and how large the
 * manifest gets. A pure function of what was inspected, so that what can't be built is refused at once.
 */
import type { Cast } from '#native';
import { failed, failure, succeeded, type Outcome } from '../contract/failure.ts';
import { canonicalJson } from '../store/canonical-json.ts';
import { contiguousStride, elementCount, type Dtype } from '../store/dtypes.ts';
import { maxMetadataBytes } from '../store/paths.ts';
import type { Checkpoint, CheckpointTensor } from './checkpoint.ts';
import { predominantDtype, targetsOf, type RepresentationName } from './representation.ts';

/** Payloads end at the tensor that would pass this. A larger tensor has a payload of its own. */
export const payloadSplitBytes = 1024 ** 3;

export interface PlannedTensor {
  readonly source: CheckpointTensor;
  readonly dtype: Dtype;
  readonly cast: Cast;
  /** In the artifact. */
  readonly nbytes: number;
}

export interface PlannedPayload {
  readonly name: string;
  /** In name order, which is also their order in the file. */
  readonly tensors: readonly PlannedTensor[];
}

export interface ArtifactPlan {
  readonly representation: RepresentationName;
  /** Of most bytes, as torch prints it. */
  readonly dtype: string;
  readonly payloads: readonly PlannedPayload[];
  /** Of all tensors, without headers. */
  readonly tensorBytes: number;
  /** Never less than what the manifest will have. */
  readonly manifestBytes: number;
}

/** What no checkpoint needs to be read for: a production failure that no retry cures. */
export function planArtifact(
  checkpoint: Checkpoint,
  representation: RepresentationName,
): Outcome<ArtifactPlan> {
  const targets = targetsOf(representation, checkpoint.tensors);
  if (!targets.ok) return targets;
  const tensors = checkpoint.tensors.map((source, index): PlannedTensor => {
    const { dtype, cast } = targets.value[index] as { dtype: Dtype; cast: Cast };
    return { source, dtype, cast, nbytes: elementCount(source.shape) * dtype.bytes };
  });
  const manifestBytes = manifestBound(tensors);
  if (manifestBytes > maxMetadataBytes) return failed(manifestFailure(tensors.length, manifestBytes));
  return succeeded({
    representation,
    dtype: predominantDtype(tensors),
    payloads: splitIntoPayloads(tensors),
    tensorBytes: tensors.reduce((total, { nbytes }) => total + nbytes, 0),
    manifestBytes,
  });
}

function splitIntoPayloads(tensors: readonly PlannedTensor[]): PlannedPayload[] {
  const groups: PlannedTensor[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const tensor of tensors) {
    if (bytes + tensor.nbytes > payloadSplitBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(tensor);
    bytes += tensor.nbytes;
  }
  return groups.map((group, index) => ({ name: payloadName(index + 1, groups.length), tensors: group }));
}

function payloadName(number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, '0');
  return `weights-${digits(number)}-of-${digits(count)}.safetensors`;
}

/** Identity, schemas, digests and payload files; all that does not grow with the number of tensors. */
const documentBytes = 64 * 1024;

/** What a tensor's entry takes besides its name (twice), shape, strides, dtype and size. */
const entryBytes =
  canonicalJson({
    name: '',
    kind: 'parameter',
    role: 'weight',
    file_name: payloadName(1, 1),
    storage_key: '',
    shape: [],
    dtype: '',
    stride: [],
    nbytes: 0,
    sha256: '0'.repeat(64),
  }).length + 1;

/** Adds lengths up instead of writing the document, which for some checkpoints would be hundreds of MiB. */
function manifestBound(tensors: readonly PlannedTensor[]): number {
  return tensors.reduce((bytes, { source: { name, shape }, dtype, nbytes }) => {
    const names = 2 * canonicalJson(name).length;
    const lists = shape.join().length + contiguousStride(shape).join().length;
    return bytes + entryBytes + names + lists + dtype.torch.length + String(nbytes).length;
  }, documentBytes);
}

function manifestFailure(tensorCount: number, manifestBytes: number): ReturnType<typeof failure> {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 1024 ** 2)} MiB`;
  return failure(
    'production',
    'producer_unsupported',
    `The checkpoint has ${tensorCount} tensors; their manifest would take ${mebibytes(manifestBytes)}, and no reader of a store takes more than ${mebibytes(maxMetadataBytes)}. Nothing was built. Use a version of the model with fewer, larger tensors (fused experts, for example).`,
    {
      details: {
        tensor_count: tensorCount,
        manifest_bytes: manifestBytes,
        max_manifest_bytes: maxMetadataBytes,
      },
    },
  );
}
