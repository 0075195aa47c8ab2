/** Makers of what a host would tell about artifacts: short to write in a test, and always the same for the same numbers. */
import type { Artifact, TensorRow } from '../../../src/contract/artifact-schemas.ts';
import type { InventoryRow } from '../../../src/contract/domain-schemas.ts';
import { keyOf } from './units.ts';

export function tensors(count: number): TensorRow[] {
  return Array.from({ length: count }, (_, n): TensorRow => {
    const layer = Math.floor(n / 4);
    const part = [
      'self_attn.qkv_proj.weight',
      'self_attn.o_proj.weight',
      'mlp.gate_up_proj.weight',
      'norm.weight',
    ][n % 4];
    const shape = n % 4 === 3 ? [4096] : n % 4 === 2 ? [24_576, 4096] : [6144, 4096];
    return {
      name: `model.layers.${layer}.${part}`,
      kind: 'parameter',
      role: 'weight',
      dtype: n % 4 === 3 ? 'float32' : 'bfloat16',
      shape,
      bytes: shape.reduce((product, length) => product * length, n % 4 === 3 ? 4 : 2),
      fileName: `weights-${String((n % 4) + 1).padStart(5, '0')}.safetensors`,
      sha256: keyOf(`tensor ${n}`),
    };
  });
}

export function artifact(root: string, entry: InventoryRow, all: readonly TensorRow[]): Artifact {
  const share = (
    name: string,
    some: readonly TensorRow[],
  ): { name: string; tensors: number; bytes: number } => {
    return { name, tensors: some.length, bytes: some.reduce((sum, { bytes }) => sum + bytes, 0) };
  };
  const identity = {
    source: { repository: entry.model, revision: entry.modelRevision },
    component: entry.component,
    representation: { kind: entry.representation, dtype: entry.dtype },
    layout: { kind: 'contiguous', tp_size: entry.tensorParallelSize, tp_rank: entry.tensorParallelRank },
    schema: 'host-weight-identity/1',
  };
  const fields = Object.entries(identity).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).map(([inner, text]) => ({ path: `${name}.${inner}`, value: String(text) }))
      : [{ path: name, value: String(value) }],
  );
  return {
    key: entry.key,
    path: `${root}/ready/${entry.key}`,
    entries: [entry],
    identity: { fields, document: JSON.stringify(identity, null, 2) },
    contents: {
      contentSha256: keyOf(`content ${entry.key}`),
      producerSchema: 'checkpoint/1',
      restorerSchema: 'safetensors/1',
      formatMetadata: '{}',
      files: [1, 2, 3, 4].map((n) => {
        const name = `weights-0000${n}.safetensors`;
        return { name, bytes: Math.floor(entry.bytes / 4), sha256: keyOf(`${entry.key} ${name}`) };
      }),
      tensors: all.length,
      tensorBytes: share('', all).bytes,
      bytesByDtype: [...Map.groupBy(all, ({ dtype }) => dtype)].map(([name, some]) => share(name, some)),
      bytesByLayer: [...Map.groupBy(all, ({ name }) => `layer ${name.split('.')[2]}`)].map(([name, some]) =>
        share(name, some),
      ),
    },
    problem: null,
    locks: [],
  };
}
