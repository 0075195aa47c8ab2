/** A whole build, from the start of its process to the published artifact, against `cp` and `sync` of the same bytes. */
import { randomBytes } from 'node:crypto';
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { startBuild } from '../../src/production/build-supervisor.ts';
import { cleanup } from '../../src/store/cleanup.ts';
import { encodeHeader } from '../../src/store/safetensors.ts';
import { atMost, contest, timed, type Ratio } from './measure.ts';
import { newDomain } from './stores.ts';
import { spawnSync } from 'node:child_process';

const runs = 5;
const shards = 4;
const tensorsPerShard = 16;
const checkpointBytes = 2 * 1024 ** 3;

export async function build(folder: string): Promise<Ratio[]> {
  const checkpoint = join(folder, 'checkpoint');
  writeCheckpoint(checkpoint, checkpointBytes);
  const domain = await newDomain(join(folder, 'built'));
  const copy = join(folder, 'copy');
  const times = await contest({
    runs,
    ours: async () => {
      let key: string | null = null;
      const elapsed = await timed(async () => {
        const result = await startBuild({ checkpoint, domain: domain.root, representation: 'preserve' })
          .result;
        if (result.status !== 'built') throw new Error(JSON.stringify(result));
        key = result.key;
      });
      if (key !== null) await cleanup(domain, key);
      return elapsed;
    },
    theirs: () =>
      timed(async () => {
        run('cp', '-r', checkpoint, copy);
        run('sync');
      }),
    // Neither side pays for writing back what the other one left.
    reset: () => {
      rmSync(copy, { recursive: true, force: true });
      run('sync');
    },
  });
  rmSync(copy, { recursive: true, force: true });
  rmSync(checkpoint, { recursive: true });
  return [atMost('build `preserve` of 2 GiB (source digests included), against cp + sync', 3, runs, times)];
}

function run(command: string, ...args: string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) throw error ?? new Error(`${command} failed`);
}

export function writeCheckpoint(folder: string, bytes: number): void {
  const bytesPerTensor = bytes / shards / tensorsPerShard;
  mkdirSync(folder, { recursive: true });
  const weightMap: Record<string, string> = {};
  const chunk = randomBytes(1 << 20);
  for (let shard = 0; shard < shards; shard += 1) {
    const name = `model-${String(shard + 1).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}.safetensors`;
    const tensors = Array.from({ length: tensorsPerShard }, (_, index) => ({
      name: `layers.${shard}.${index}.weight`,
      dtype: 'BF16',
      shape: [bytesPerTensor / 2],
      nbytes: bytesPerTensor,
    }));
    const fd = openSync(join(folder, name), 'w');
    writeSync(fd, encodeHeader(tensors));
    for (let done = 0; done < bytesPerTensor * tensorsPerShard; done += chunk.length) writeSync(fd, chunk);
    closeSync(fd);
    for (const tensor of tensors) weightMap[tensor.name] = name;
  }
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ weight_map: weightMap }));
}
