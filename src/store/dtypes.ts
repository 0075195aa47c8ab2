/**
 * The element types that artifacts can hold, under their two names: torch's in manifests, safetensors' in
 * payload headers. Source: host-weight store specification, section 4.
 */
export interface Dtype {
  /** As torch prints it. */
  readonly torch: string;
  readonly safetensors: string;
  readonly bytes: number;
}

const table = [
  ['bool', 'BOOL', 1],
  ['uint8', 'U8', 1],
  ['int8', 'I8', 1],
  ['int16', 'I16', 2],
  ['int32', 'I32', 4],
  ['int64', 'I64', 8],
  ['float16', 'F16', 2],
  ['bfloat16', 'BF16', 2],
  ['float32', 'F32', 4],
  ['float64', 'F64', 8],
  ['float8_e4m3fn', 'F8_E4M3', 1],
  ['float8_e5m2', 'F8_E5M2', 1],
  ['float8_e4m3fnuz', 'F8_E4M3FNUZ', 1],
  ['float8_e5m2fnuz', 'F8_E5M2FNUZ', 1],
] as const;

export const dtypes: readonly Dtype[] = table.map(([name, safetensors, bytes]) => ({
  torch: `torch.${name}`,
  safetensors,
  bytes,
}));

const byTorch = new Map(dtypes.map((dtype) => [dtype.torch, dtype]));
const bySafetensors = new Map(dtypes.map((dtype) => [dtype.safetensors, dtype]));

export function dtypeOfTorch(name: string): Dtype | undefined {
  return byTorch.get(name);
}

export function dtypeOfSafetensors(name: string): Dtype | undefined {
  return bySafetensors.get(name);
}

/** Strides of a contiguous torch tensor, in elements: from the last dimension, 1, then times max(size, 1). */
export function contiguousStride(shape: readonly number[]): number[] {
  const stride = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    stride[axis] = step;
    step *= Math.max(shape[axis] as number, 1);
  }
  return stride;
}

/** Number of elements; 1 for a scalar. Infinity or an unsafe integer is for the caller to refuse. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((count, size) => count * size, 1);
}
