/** What the desk keeps from one start to the next. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { History } from '../../../src/catalog/history.ts';
import { lookup } from '../../../src/store/lookup.ts';
import { store } from '../../fixtures/store.ts';
import { DeskScene, readUntil } from './desk-scene.ts';

test('a check of an artifact is known after the next start', async () => {
  const scene = new DeskScene();
  const made = await store({ root: scene.path('store') })
    .artifact('one')
    .made();
  const { root } = made;
  const key = made.key('one');
  const first = await scene.desk();
  await first.inProcess().stores.open({ root });
  await readUntil(await first.inProcess().artifact.verify({ root, key }));
  await first.close();
  const second = await scene.desk();
  const { rows } = await second.inProcess().domain.inventory({ root });
  expect(rows).toMatchObject([{ key, lastVerified: { level: 'full_checksum', status: 'valid' } }]);
});

test('an overview and a search over the contract, with what another process does', async () => {
  const scene = new DeskScene();
  const made = await store({ root: scene.path('store') })
    .artifact('one')
    .made();
  const { root } = made;
  const desk = await scene.desk();
  const client = desk.inProcess();
  await client.stores.open({ root });
  expect((await client.domain.find({ root, search: 'test/one' })).artifacts).toBe(1);
  const { groups } = await client.domain.overview({ root });
  expect(groups).toMatchObject([{ state: 'ready', model: 'test/one', entries: 1 }]);
  await made.buildStatus('two');
  desk.workstation.stores.get(root).touch();
  expect((await client.domain.find({ root, search: 'test/two' })).rows).toMatchObject([
    { key: made.key('two'), state: 'ready', matchingTensors: 0 },
  ]);
});

test('leases that somebody holds are taken note of', async () => {
  const scene = new DeskScene();
  const made = await store({ root: scene.path('store') })
    .artifact('held')
    .artifact('idle')
    .made();
  const { root, domain } = made;
  const held = await lookup(domain, made.identity('held'), { deadline: null });
  if (held.status !== 'hit') throw new Error(held.status);
  const before = Date.now();
  const desk = await scene.desk();
  await desk.inProcess().stores.open({ root });
  // Asking for the locks is a look at them too.
  await desk.inProcess().domain.locks({ root });
  held.lease.close();
  await desk.close();
  const history = await History.open(scene.path('state', 'weightroom', 'history.sqlite'));
  onTestFinished(() => history.close());
  expect(history.watchedSinceMs(domain.uuid)).toBeGreaterThanOrEqual(before);
  expect(history.lastLeasedMs(domain.uuid, made.key('held'))).toBeGreaterThanOrEqual(before);
  expect(history.lastLeasedMs(domain.uuid, made.key('idle'))).toBeNull();
});

test('builds are in the history', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const root = await scene.store();
  const client = desk.inProcess();
  await client.stores.open({ root });
  const started = await client.builds.start({ root, checkpoint: scene.checkpoint().path });
  await readUntil(await client.builds.watch(started));
  await desk.close();
  const history = await History.open(scene.path('state', 'weightroom', 'history.sqlite'));
  onTestFinished(() => history.close());
  expect(history.builds(5)).toMatchObject([{ id: started.id, root, status: 'built' }]);
});

test('a catalog that is damaged is said once, and everything works', async () => {
  const scene = new DeskScene();
  const roots = [await scene.store('one'), await scene.store('two')];
  const file = scene.path('cache', 'weightroom', 'catalog.sqlite');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, 'this is no database');
  const desk = await scene.desk();
  const client = desk.inProcess();
  for (const root of roots) await client.stores.open({ root });
  for (const root of roots) expect((await client.domain.inventory({ root })).total).toBe(0);
  while ((await client.app.status()).problems.length === 0)
    await client.domain.overview({ root: roots[0] as string });
  expect((await client.app.status()).problems).toMatchObject([
    { message: expect.stringContaining('set aside') as string },
  ]);
  expect(readdirSync(dirname(file))).toContain('catalog.sqlite.damaged');
});
