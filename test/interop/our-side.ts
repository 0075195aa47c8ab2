/** Our side of the interop suite: the same artifact that the Python side would make, through our own store. */
import { dtypeOfTorch, type Dtype } from '../../src/store/dtypes.ts';
import { ArtifactIdentity } from '../../src/store/identity.ts';
import { parseJson } from '../../src/store/json-parser.ts';
import type { WeightProducer } from '../../src/store/producer.ts';
import { fillBytes, type PythonFile, type PythonTensor } from './python-side.ts';

/** Canonical text with the traps that keys have to survive: floats, big integers, astral characters. */
export function identityText(model: string, metadata = '{}'): string {
  return `{"schema_version":1,
    "source":{"model_id":${JSON.stringify(model)},"revision":"r1","fingerprint":"f1","metadata":${metadata}},
    "component":{"name":"transformer","ownership":"full","metadata":{}},
    "representation":{"name":"plain","dtype":"torch.bfloat16","metadata":{}},
    "layout":{"name":"contiguous","tensor_parallel_size":2,"tensor_parallel_rank":1,"sequence_parallel_size":1,
      "sequence_parallel_backend":"none","metadata":{}},
    "adaptation":{"kind":"base","fingerprint":null,"metadata":{}},
    "producer":{"producer_id":"interop","version":"1","implementation_fingerprint":"i","manifest_schema":"m1",
      "restorer_schema":"r1"}}`;
}

export function identityOf(text: string): ArtifactIdentity {
  return ArtifactIdentity.of(parseJson(text));
}

export const sampleTensors: readonly PythonTensor[] = [
  { name: 'Z.first', shape: [3], dtype: 'uint8', fill: 'z' },
  { name: 'a.weight', shape: [8, 4], dtype: 'bfloat16', fill: 'a' },
  { name: 'b.mask', shape: [5], dtype: 'bool', kind: 'buffer', role: 'mask', fill: 'b' },
  { name: 'c.data', shape: [2], dtype: 'float32', data: new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]) },
  { name: 'd.empty', shape: [0, 3], dtype: 'float16' },
  { name: 'e.\u{1f600}\u00e9"\\', shape: [2, 2], dtype: 'int16', fill: 'e' },
];

export const sampleFiles: readonly PythonFile[] = [
  { name: 'one.safetensors', tensors: ['Z.first', 'a.weight', 'd.empty', 'e.\u{1f600}\u00e9"\\'] },
  { name: 'two.safetensors', tensors: ['b.mask', 'c.data'] },
];

function dtypeOf(tensor: PythonTensor): Dtype {
  const dtype = dtypeOfTorch(`torch.${tensor.dtype.replace(/^torch\./, '')}`);
  if (dtype === undefined) throw new Error(`no dtype ${tensor.dtype}`);
  return dtype;
}

export function tensorBytes(tensor: PythonTensor): Uint8Array {
  const length = tensor.shape.reduce((total, size) => total * size, dtypeOf(tensor).bytes);
  return tensor.data ?? fillBytes(tensor.fill ?? tensor.name, length, tensor.dtype);
}

/** `inside` is called, and waited for, before anything is written. */
export function producerOf(
  identity: ArtifactIdentity,
  tensors: readonly PythonTensor[] = sampleTensors,
  files: readonly PythonFile[] = sampleFiles,
  inside: () => Promise<void> = async () => undefined,
): WeightProducer {
  return {
    coordinationScope: 'single_process',
    lookupPhase: 'pre_load_safe',
    outputs: [identity],
    async produce(writer) {
      await inside();
      for (const file of files) {
        const mine = tensors.filter((tensor) => file.tensors?.includes(tensor.name) ?? true);
        const payload = await writer.openPayload(
          file.name,
          mine.map((tensor) => ({
            name: tensor.name,
            shape: tensor.shape,
            dtype: dtypeOf(tensor),
            kind: tensor.kind ?? 'parameter',
            role: tensor.role ?? 'weight',
          })),
        );
        const byName = new Map(mine.map((tensor) => [tensor.name, tensor]));
        for (const { name } of payload.specs)
          await payload.write(name, tensorBytes(byName.get(name) as PythonTensor));
        await payload.close();
      }
      return { producerSchema: 'm1', restorerSchema: 'r1', formatMetadata: {} };
    },
  };
}
