/** Stores and artifacts to measure on. */
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getOrBuild } from '../../src/store/build.ts';
import { createDomain, type Domain } from '../../src/store/domain.ts';
import { dtypeOfTorch, type Dtype } from '../../src/store/dtypes.ts';
import type { ArtifactIdentity } from '../../src/store/identity.ts';
import { parseJsonBytes } from '../../src/store/json-parser.ts';
import { manifestBytes, manifestDigest, markerBytes, readManifest } from '../../src/store/manifest.ts';
import { artifactLock, buildLock, manifestFile, readyFile } from '../../src/store/paths.ts';
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
  /** Of the tensors' names; `part` when it is not given. */
  readonly prefix?: string;
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
            name: `${shape.prefix ?? 'part'}.${file}.layer.${index}.weight`,
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

/**
 * Copies one published artifact under many identities, each whole and with a manifest, a key and locks of its own: what
 * as many builds would have left, without their time. `first` counts them on from an earlier call.
 */
export function multiply(domain: Domain, identity: ArtifactIdentity, count: number, first = 0): void {
  const artifacts = join(domain.root, 'artifacts');
  const original = join(artifacts, identity.key);
  const payloads = readdirSync(original).filter((name) => name.endsWith('.safetensors'));
  const manifest = readManifest(parseJsonBytes(readFileSync(join(original, manifestFile))));
  for (let index = first; index < first + count; index += 1) {
    const own = {
      ...manifest,
      identity: identityOf(identityText(`many/copy-${index % 40}`, `{"n":${index}}`)),
    };
    const copy = join(artifacts, own.identity.key);
    mkdirSync(copy);
    for (const name of payloads) copyFileSync(join(original, name), join(copy, name));
    writeFileSync(join(copy, manifestFile), manifestBytes(own), { mode: 0o444 });
    writeFileSync(join(copy, readyFile), markerBytes(manifestDigest(own), own.contentSha256), {
      mode: 0o444,
    });
    chmodSync(copy, 0o555);
    for (const lock of [buildLock(own.identity.key), artifactLock(own.identity.key)]) {
      writeFileSync(join(domain.root, 'locks', lock), '', { mode: 0o600 });
    }
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
