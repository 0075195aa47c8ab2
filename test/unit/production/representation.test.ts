/** What is cast, what is kept, and what is refused because a scale is missing (P8). */
import { describe, expect, test } from 'vitest';
import type { CheckpointTensor } from '../../../src/production/checkpoint.ts';
import {
  predominantDtype,
  targetsOf,
  type RepresentationName,
} from '../../../src/production/representation.ts';
import { dtypeOfSafetensors, dtypes, type Dtype } from '../../../src/store/dtypes.ts';

const file = {
  name: 'model.safetensors',
  path: '/model.safetensors',
  sizeBytes: 0,
  stamp: { dev: 0n, ino: 0n, sizeBytes: 0, mtimeNs: 0n, ctimeNs: 0n },
};

function tensors(named: Readonly<Record<string, string>>): CheckpointTensor[] {
  return Object.entries(named).map(([name, dtype]) => ({
    name,
    dtype: dtypeOfSafetensors(dtype) as Dtype,
    shape: [2],
    file,
    offset: 0,
    nbytes: 2,
  }));
}

function targets(
  representation: RepresentationName,
  named: Readonly<Record<string, string>>,
): Record<string, string> {
  const outcome = targetsOf(representation, tensors(named));
  if (!outcome.ok) throw new Error(outcome.failure.message);
  return Object.fromEntries(
    Object.keys(named).map((name, index) => [name, outcome.value[index]?.dtype.torch ?? '']),
  );
}

const every = Object.fromEntries(dtypes.map(({ torch, safetensors }) => [torch, safetensors]));

test('preserve keeps every dtype, scaled or not', () => {
  for (const [name, target] of Object.entries(targets('preserve', every))) expect(target).toBe(name);
});

test('bf16 casts float32 and float16 and keeps all others', () => {
  const floats = Object.fromEntries(Object.entries(every).filter(([name]) => !name.includes('float8')));
  for (const [name, target] of Object.entries(targets('bf16', floats))) {
    const cast = name === 'torch.float32' || name === 'torch.float16';
    expect(target).toBe(cast ? 'torch.bfloat16' : name);
  }
});

describe('fp8 weights', () => {
  test.each([
    'weight_scale',
    'weight_scale_inv',
    'weight_scale_2',
    'weight_scales',
    'scale_weight',
    'scale',
    'scales',
  ])('with %s travel unchanged, the scale too', (scale) => {
    expect(
      targets('bf16', {
        'layer.0.weight': 'F8_E4M3',
        [`layer.0.${scale}`]: 'F32',
        'layer.0.input_scale': 'F32',
        'layer.0.bias': 'F32',
        'layer.1.scale': 'F32',
        norm: 'F16',
      }),
    ).toEqual({
      'layer.0.weight': 'torch.float8_e4m3fn',
      [`layer.0.${scale}`]: 'torch.float32',
      'layer.0.input_scale': 'torch.float32',
      'layer.0.bias': 'torch.bfloat16',
      'layer.1.scale': 'torch.bfloat16',
      norm: 'torch.bfloat16',
    });
  });

  test('several weights of one module need a scale each', () => {
    const fused = { 'moe.up': 'F8_E5M2', 'moe.up_scale_inv': 'F32', 'moe.down': 'F8_E5M2' };
    const outcome = targetsOf('bf16', tensors(fused));
    expect(outcome).toMatchObject({
      ok: false,
      failure: { stage: 'production', code: 'producer_unsupported', retryable: false },
    });
    const message = outcome.ok ? '' : outcome.failure.message;
    expect(message).toContain('"moe.down" is stored as torch.float8_e5m2 without a scale');
    expect(message).toContain('build it with "preserve"');
    expect(message).toContain('*_scale');
  });

  test("another module's scale and an activation's scale do not count", () => {
    const missing = { 'a.weight': 'F8_E4M3', 'a.input_scale': 'F32', 'b.weight_scale': 'F32' };
    expect(targetsOf('bf16', tensors(missing)).ok).toBe(false);
  });

  test('an fp8 scale of 4-bit weights is a scale and needs none', () => {
    const nvfp4 = { 'l.weight': 'U8', 'l.weight_scale': 'F8_E4M3', 'l.weight_scale_2': 'F32' };
    expect(targets('bf16', nvfp4)['l.weight_scale_2']).toBe('torch.float32');
  });
});

test('the scales of integer weights are kept', () => {
  const gptq = { 'l.qweight': 'I32', 'l.scales': 'F16', 'l.bias': 'F16' };
  expect(targets('bf16', gptq)).toMatchObject({ 'l.scales': 'torch.float16', 'l.bias': 'torch.bfloat16' });
});

test('the predominant dtype is that of most bytes', () => {
  const part = (torch: string, nbytes: number): { dtype: Dtype; nbytes: number } => ({
    dtype: dtypes.find((dtype) => dtype.torch === torch) as Dtype,
    nbytes,
  });
  expect(
    predominantDtype([part('torch.float32', 5), part('torch.bfloat16', 4), part('torch.bfloat16', 4)]),
  ).toBe('torch.bfloat16');
  expect(predominantDtype([part('torch.int8', 4), part('torch.bool', 4)])).toBe('torch.bool');
});
