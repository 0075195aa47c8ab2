/** The catalog while both sides change a store: no answer of it differs from a fresh scan. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Catalog } from '../../src/catalog/catalog.ts';
import { getOrBuild } from '../../src/store/build.ts';
import { cleanup } from '../../src/store/cleanup.ts';
import { createDomain } from '../../src/store/domain.ts';
import { inventory } from '../../src/store/inventory.ts';
import { randomOf } from '../fixtures/catalog-random.ts';
import { temporaryFolder, valueOf } from '../fixtures/store.ts';
import { identityOf, identityText, producerOf, sampleFiles, sampleTensors } from './our-side.ts';
import { PythonSide } from './python-side.ts';

let python: PythonSide;
beforeAll(async () => {
  python = await PythonSide.start();
});
afterAll(async () => await python.close());

test('random builds and removals by either side', async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  console.log(`catalog with both sides: SEED=${seed}`);
  const random = randomOf(seed);
  const root = join(temporaryFolder(), 'store');
  const { domain } = valueOf(await createDomain({ root }));
  const { store } = await python.open({ root });
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const catalog = await Catalog.open(path);
  onTestFinished(() => catalog.close());
  const steps: string[] = [];
  for (let round = 0; round < 60; round += 1) {
    const text = identityText(`model-${random(6)}`);
    const identity = identityOf(text);
    const step = ['they build', 'we build', 'they remove', 'we remove', 'a manifest goes'][
      random(5)
    ] as string;
    steps.push(`${step} ${identity.key.slice(0, 6)}`);
    if (step === 'they build') {
      await python.build(store, text, { tensors: sampleTensors, files: sampleFiles });
    } else if (step === 'we build') {
      const result = await getOrBuild(domain, identity, producerOf(identity), { deadline: null });
      if ('lease' in result) result.lease.close();
    } else if (step === 'they remove') await python.cleanup(store, text);
    else if (step === 'we remove') await cleanup(domain, identity.key);
    else rmSync(join(root, 'artifacts', identity.key, 'manifest.json'), { force: true });
    const listed = await inventory(domain);
    await catalog.refresh(domain, listed);
    const words = `SEED=${seed} after ${steps.slice(-5).join(', ')}`;
    expect(await catalog.check(domain, await inventory(domain)), words).toEqual([]);
    const { inventory: theirs } = await python.inspectDomain(store);
    const found = await catalog.find(domain, { words: [], offset: 0, limit: 500 });
    expect(found.rows.map(({ key, state }) => `${key} ${state}`).sort(), words).toEqual(
      theirs.map(({ artifactKey, state }) => `${artifactKey} ${state}`).sort(),
    );
  }
});
