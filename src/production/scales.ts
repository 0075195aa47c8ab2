/**
 * Which tensors are the scales of quantised weights, found by name as the common writers spell them, always
 * beside the weight in its module:
 *   weight + weight_scale, weight_scale_inv, weight_scale_2, weight_scales   compressed-tensors, DeepSeek, ModelOpt
 *   weight + scale_weight, scale_input                                        ComfyUI
 *   weight + scale, scales, input_scale                                       fbgemm, GPTQ and others
 */
import type { Dtype } from '../store/dtypes.ts';
import type { CheckpointTensor } from './checkpoint.ts';

const scaleLeaf = /(^|_)scales?(_|$)/;

export interface Scales {
  /** Names of the tensors that scale a weight of their module. */
  readonly scales: ReadonlySet<string>;
  /** Weights that need a scale to mean anything and have none. */
  readonly unscaled: readonly CheckpointTensor[];
}

export function findScales(tensors: readonly CheckpointTensor[]): Scales {
  const byModule = new Map<string, CheckpointTensor[]>();
  for (const tensor of tensors) {
    const siblings = byModule.get(moduleOf(tensor.name));
    if (siblings === undefined) byModule.set(moduleOf(tensor.name), [tensor]);
    else siblings.push(tensor);
  }
  const scales = new Set<string>();
  const unscaled: CheckpointTensor[] = [];
  for (const siblings of byModule.values()) {
    const weights = siblings.filter(({ name, dtype }) => isQuantised(dtype) && !isScale(name));
    if (weights.length === 0) continue;
    const beside = siblings.filter(({ name }) => isScale(name));
    for (const { name } of beside) scales.add(name);
    unscaled.push(
      ...weights.filter(
        (weight) => isFloat8(weight.dtype) && !beside.some(({ name }) => belongs(name, weight.name)),
      ),
    );
  }
  return { scales, unscaled };
}

function isFloat8({ torch }: Dtype): boolean {
  return torch.startsWith('torch.float8_');
}

/** Elements that are codes: 8-bit ones, or several packed into an int32 as GPTQ and AWQ do it. */
function isQuantised(dtype: Dtype): boolean {
  return isFloat8(dtype) || ['torch.int8', 'torch.uint8', 'torch.int32'].includes(dtype.torch);
}

function isScale(name: string): boolean {
  return scaleLeaf.test(leafOf(name));
}

/** A scale of its module as a whole, or of exactly this weight where a module has several. */
function belongs(scale: string, weight: string): boolean {
  const leaf = leafOf(scale);
  const own = leafOf(weight);
  return leaf.startsWith(`${own}_scale`) || leaf === `scale_${own}` || /^scales?$/.test(leaf);
}

function leafOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

function moduleOf(name: string): string {
  return name.slice(0, Math.max(name.lastIndexOf('.'), 0));
}
