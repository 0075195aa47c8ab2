/** Stores and artifacts to measure on. */
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { getOrBuild } from '../../src/store/build.ts';
import { createDomain, type Domain } from '../../src/store/domain.ts';
import { dtypeOfTorch, type Dtype } from '../../src/store/dtypes.ts';
import type { ArtifactIdentity } from '../../src/store/identity.ts';
import type { WeightProducer } from '../../src/store/producer.ts';
import { identityOf, identityText } from '../interop/our-side.ts';

export async function newDomain(root: string): Promise<Domain> {
  const created = await createDomain({ root });
  if (!created.ok) throw new Error(created.failure.message);
  return created.value.domain;
}

export interface Shape {
  readonly label: string;
  readonly files: number;
  readonly tensorsPerFile: number;
  /** A multiple of 2. */
  readonly bytesPerTensor: number;
}

/** Publishes an artifact of bfloat16 tensors with bytes that do not compress away. */
export async function publish(domain: Domain, shape: Shape): Promise<ArtifactIdentity> {
  const identity = identityOf(identityText(shape.label));
  const result = await getOrBuild(domain, identity, producer(identity, shape), { deadline: null });
  if (!('lease' in result)) throw new Error(JSON.stringify(result));
  result.lease.close();
  return identity;
}

function producer(identity: ArtifactIdentity, shape: Shape): WeightProducer {
  const bf16 = dtypeOfTorch('torch.bfloat16') as Dtype;
  const chunk = createHash('shake256', { outputLength: Math.min(shape.bytesPerTensor, 1 << 20) })
    .update(shape.label)
    .digest();
  return {
    coordinationScope: 'single_process',
    lookupPhase: 'pre_load_safe',
    outputs: [identity],
    async produce(writer) {
      for (let file = 0; file < shape.files; file += 1) {
        const payload = await writer.openPayload(
          `part-${String(file).padStart(3, '0')}.safetensors`,
          Array.from({ length: shape.tensorsPerFile }, (_, index) => ({
            name: `part.${file}.layer.${index}.weight`,
            shape: [shape.bytesPerTensor / 2],
            dtype: bf16,
            kind: 'parameter' as const,
            role: 'weight',
          })),
        );
        for (const { name } of payload.specs) {
          for (let done = 0; done < shape.bytesPerTensor; done += chunk.length) {
            await payload.write(name, chunk.subarray(0, Math.min(chunk.length, shape.bytesPerTensor - done)));
          }
        }
        await payload.close();
      }
      return { producerSchema: 'm1', restorerSchema: 'r1', formatMetadata: {} };
    },
  };
}

/** Copies one published artifact under many keys: enough for listings, which validate nothing. */
export function multiply(domain: Domain, identity: ArtifactIdentity, count: number): void {
  const artifacts = join(domain.root, 'artifacts');
  const original = join(artifacts, identity.key);
  const names = readdirSync(original);
  for (let index = 0; index < count; index += 1) {
    const copy = join(artifacts, createHash('sha256').update(String(index)).digest('hex'));
    mkdirSync(copy);
    for (const name of names) copyFileSync(join(original, name), join(copy, name));
    chmodSync(copy, 0o555);
  }
}

/** Makes everything below removable: artifacts are 0555. */
export function removeStores(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    chmodSync(path, 0o700);
    removeStores(path);
  }
}
