/** Full verification against `openssl dgst -sha256` of the same files. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { inspectArtifact } from '../../src/store/lookup.ts';
import { atLeast, contest, timed, timedProgram, type Ratio } from './measure.ts';
import { newDomain, publish } from './stores.ts';

const runs = 5;

export async function verification(folder: string): Promise<Ratio[]> {
  const domain = await newDomain(join(folder, 'verification'));
  const ratios: Ratio[] = [];
  for (const shape of [
    { label: 'one payload of 1 GiB', files: 1, tensorsPerFile: 64, bytesPerTensor: 16 << 20 },
    { label: 'eight payloads of 128 MiB', files: 8, tensorsPerFile: 8, bytesPerTensor: 16 << 20 },
  ]) {
    const identity = await publish(domain, shape);
    const artifact = join(domain.root, 'artifacts', identity.key);
    const payloads = readdirSync(artifact)
      .filter((name) => name.endsWith('.safetensors'))
      .map((name) => join(artifact, name));
    const times = await contest({
      runs,
      ours: () =>
        timed(async () => {
          const found = await inspectArtifact(domain, identity, { validation: 'full_checksum' });
          if (found.status !== 'hit') throw new Error(JSON.stringify(found));
          found.lease.close();
        }),
      theirs: () => timedProgram('openssl', 'dgst', '-sha256', ...payloads),
    });
    ratios.push(
      atLeast(`full verification of ${shape.label}, against openssl dgst -sha256`, 1.0, runs, times),
    );
  }
  return ratios;
}
