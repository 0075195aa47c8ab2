/** What can go from a store of 10,000 artifacts: a dry run must be there as soon as somebody looks. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultGroups, type CleanupGroup } from '../../src/cleanup/groups.ts';
import { planCleanup } from '../../src/host/cleaning.ts';
import type { Domain } from '../../src/store/domain.ts';
import { figure, median, timed, type Figure } from './measure.ts';
import { multiply, newDomain, publish } from './stores.ts';

const runs = 7;
const artifacts = 10_000;
const leftovers = 500;

export async function cleanup(folder: string): Promise<Figure[]> {
  const domain = await newDomain(join(folder, 'cleanup'));
  multiply(
    domain,
    await publish(domain, { label: 'small', files: 1, tensorsPerFile: 50, bytesPerTensor: 64 }),
    artifacts - 1,
  );
  for (let index = 0; index < leftovers; index += 1) {
    const name = `${index.toString(16).padStart(64, '0')}.1.x`;
    mkdirSync(join(domain.root, 'tmp', name));
    writeFileSync(join(domain.root, 'tmp', name, 'weights.safetensors'), 'left');
  }
  return [
    await planning(domain, 'plan, 10,000 artifacts of 50 tensors and 500 leftovers', defaultGroups, 300),
    await planning(
      domain,
      'the same with superseded, every manifest read',
      [...defaultGroups, 'superseded'],
      5000,
    ),
  ];
}

async function planning(
  domain: Domain,
  name: string,
  groups: readonly CleanupGroup[],
  bound: number,
): Promise<Figure> {
  const times: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    times.push(
      await timed(async () => {
        const plan = await planCleanup(domain, { groups }, { now: Date.now, history: null });
        if (!plan.ok || plan.value.entries.length !== leftovers)
          throw new Error('the plan is not the expected one');
      }),
    );
  }
  const slowest = `slowest ${Math.max(...times).toFixed(0)} ms`;
  return figure(name, bound, { value: median(times), unit: 'ms', runs, remark: slowest });
}
