/**
 * In which form weights are stored: as the checkpoint has them, or with its wide floats cast to bfloat16.
 * Small data; the rule is the same for every tensor but for quantised weights, which travel unchanged and
 * take their scales along: a rounded scale would change every weight that it belongs to.
 */
import type { Cast } from '#native';
import { failed, failure, succeeded, type Outcome } from '../contract/failure.ts';
import { compareCodePoints } from '../store/canonical-json.ts';
import { dtypeOfTorch, type Dtype } from '../store/dtypes.ts';
import type { CheckpointTensor } from './checkpoint.ts';
import { findScales } from './scales.ts';

export const representationNames = ['preserve', 'bf16'] as const;
export type RepresentationName = (typeof representationNames)[number];

/** What becomes of one tensor. */
export interface Target {
  readonly dtype: Dtype;
  readonly cast: Cast;
}

const bfloat16 = dtypeOfTorch('torch.bfloat16') as Dtype;

/** By representation and the source's dtype; what is not listed is kept as it is. */
const casts: Readonly<Record<RepresentationName, Readonly<Record<string, Target>>>> = {
  preserve: {},
  bf16: {
    'torch.float32': { dtype: bfloat16, cast: 'f32-to-bf16' },
    'torch.float16': { dtype: bfloat16, cast: 'f16-to-bf16' },
  },
};

/** Changes whenever a produced byte could: it goes into the producer's implementation fingerprint. */
export const castRuleVersion = 'f32-f16-to-bf16-nearest-even-quantised-and-scales-kept-v1';

/** One target per tensor, in their order. Refuses a cast of a scaled checkpoint that lacks scales. */
export function targetsOf(
  name: RepresentationName,
  tensors: readonly CheckpointTensor[],
): Outcome<readonly Target[]> {
  const rule = casts[name];
  const keep = ({ dtype }: CheckpointTensor): Target => ({ dtype, cast: 'none' });
  if (Object.keys(rule).length === 0) return succeeded(tensors.map(keep));
  const { scales, unscaled } = findScales(tensors);
  if (unscaled.length > 0) return failed(unscaledFailure(name, unscaled));
  return succeeded(
    tensors.map((tensor) =>
      scales.has(tensor.name) ? keep(tensor) : (rule[tensor.dtype.torch] ?? keep(tensor)),
    ),
  );
}

const maxListed = 20;

function unscaledFailure(
  name: RepresentationName,
  unscaled: readonly CheckpointTensor[],
): ReturnType<typeof failure> {
  const [first] = unscaled;
  const are = unscaled.length > 1 ? ` and ${unscaled.length - 1} more are` : ' is';
  return failure(
    'production',
    'producer_unsupported',
    `${JSON.stringify(first?.name)}${are} stored as ${first?.dtype.torch} without a scale beside the weight, so what the numbers mean is not known and "${name}" is refused. If the model is complete like this, build it with "preserve"; otherwise get a version that has the *_scale tensors.`,
    {
      details: {
        tensor_count: unscaled.length,
        tensors: unscaled.slice(0, maxListed).map((tensor) => tensor.name),
      },
    },
  );
}

/** The dtype that most bytes of the artifact have, as torch prints it. Of equal ones the first by name. */
export function predominantDtype(
  parts: Iterable<{ readonly dtype: Dtype; readonly nbytes: number }>,
): string {
  const bytes = new Map<string, number>();
  for (const { dtype, nbytes } of parts) bytes.set(dtype.torch, (bytes.get(dtype.torch) ?? 0) + nbytes);
  const ranked = [...bytes].sort(([a, left], [b, right]) => right - left || compareCodePoints(a, b));
  return ranked[0]?.[0] ?? 'torch.uint8';
}
