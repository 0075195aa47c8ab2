/** The catalog among several processes, and against the truth. */
import { chmodSync, chownSync, cpSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { Catalog } from '../../../src/catalog/catalog.ts';
import { inventory } from '../../../src/store/inventory.ts';
import { catalogProcess } from '../../fixtures/catalog-client.ts';
import { changeSomething, randomOf } from '../../fixtures/catalog-random.ts';
import { isRoot, nobody, store, temporaryFolder, type Scenario } from '../../fixtures/store.ts';

async function catalogAt(path: string): Promise<Catalog> {
  const catalog = await Catalog.open(path, { busyMs: 200 });
  onTestFinished(() => catalog.close());
  return catalog;
}

async function refreshed(catalog: Catalog, { domain }: Scenario): Promise<void> {
  await catalog.refresh(domain, await inventory(domain));
}

async function differencesOf(catalog: Catalog, { domain }: Scenario): Promise<unknown> {
  return await catalog.check(domain, await inventory(domain));
}

const all = { words: [], offset: 0, limit: 100 };

test('after random changes behind its back there is no difference to a fresh scan', async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  console.log(`catalog against the truth: SEED=${seed}`);
  const random = randomOf(seed);
  const made = await store().artifact('random-0').artifact('random-1').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  let catalog = await catalogAt(path);
  const done: string[] = [];
  for (let round = 0; round < 150; round += 1) {
    for (let count = random(4); count >= 0; count -= 1) done.push(await changeSomething(made, random));
    // Now and then the next process takes over.
    if (random(10) === 0) catalog = await catalogAt(path);
    await refreshed(catalog, made);
    expect(await differencesOf(catalog, made), `SEED=${seed} after ${done.slice(-4).join(', ')}`).toEqual([]);
    const { entries } = await inventory(made.domain);
    expect((await catalog.find(made.domain, { ...all, limit: 1 })).artifacts).toBe(entries.length);
    const bytes = (await catalog.overview(made.domain)).reduce((sum, group) => sum + group.bytes, 0);
    expect(bytes).toBe(entries.reduce((sum, entry) => sum + entry.bytes, 0));
  }
  const fresh = await catalogAt(join(temporaryFolder(), 'catalog.sqlite'));
  await refreshed(fresh, made);
  for (const words of [[], ['test'], ['ready'], ['weight'], ['quarantined', 'random-1']]) {
    const question = { ...all, words };
    expect(await catalog.find(made.domain, question)).toEqual(await fresh.find(made.domain, question));
  }
  expect(await catalog.overview(made.domain)).toEqual(await fresh.overview(made.domain));
});

test('processes that rebuild the same domain at once; one of them is killed again and again', async () => {
  const made = await store().artifact('one').artifact('two').artifact('three').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const steady = catalogProcess('rebuild', path, made.root);
  for (let kills = 0; kills < 8; kills += 1) {
    const victim = catalogProcess('rebuild', path, made.root);
    for (let lines = kills % 3; lines >= 0; lines -= 1)
      expect(await victim.next()).toEqual({ problem: null });
    expect(await steady.next()).toEqual({ problem: null });
    await victim.kill();
  }
  await steady.kill();
  const catalog = await catalogAt(path);
  expect(catalog.problem).toBeNull();
  expect(await differencesOf(catalog, made)).not.toContainEqual(expect.objectContaining({ kind: 'wrong' }));
  await refreshed(catalog, made);
  expect(await differencesOf(catalog, made)).toEqual([]);
});

test('locked by another process: answered without it, and said', async () => {
  const made = await store().artifact('one').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  (await Catalog.open(path)).close();
  const locker = catalogProcess('lock', path, made.root);
  expect(await locker.next()).toBe('locked');
  const answer = await catalogProcess('open', path, made.root).next();
  expect(answer).toEqual({
    problem: expect.stringContaining('another process keeps it locked') as string,
    isKept: false,
    read: 1,
    artifacts: 1,
  });
  await locker.kill();
  expect(await catalogProcess('open', path, made.root).next()).toMatchObject({ problem: null, isKept: true });
});

test('locked while it is open: answered without it, and said', async () => {
  const made = await store().artifact('one').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const catalog = await catalogAt(path);
  await refreshed(catalog, made);
  const other = new Database(path);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  await made.buildStatus('two');
  await refreshed(catalog, made);
  expect(catalog.problem).toContain('another process keeps it locked');
  expect((await catalog.find(made.domain, all)).artifacts).toBe(2);
});

test.runIf(isRoot)('in a folder that is not ours to write: answered without it, and said', async () => {
  const made = await store({ on: 'disk' }).artifact('one').made();
  const folder = temporaryFolder();
  const path = join(folder, 'catalog.sqlite');
  const catalog = await Catalog.open(path);
  await refreshed(catalog, made);
  catalog.close();
  chmodSync(folder, 0o555);
  // The store has to be theirs; the catalog must not be.
  const theirs = temporaryFolder('disk', nobody);
  const root = join(theirs, 'store');
  cpSync(made.root, root, { recursive: true, preserveTimestamps: true });
  chownSync(root, nobody, nobody);
  for (const name of readdirSync(root, { recursive: true }) as string[])
    chownSync(join(root, name), nobody, nobody);
  const before = statSync(path, { bigint: true });
  expect(await catalogProcess('open', path, root, nobody).next()).toEqual({
    problem: expect.stringContaining('is not used') as string,
    isKept: false,
    read: 1,
    artifacts: 1,
  });
  expect(statSync(path, { bigint: true }).mtimeNs).toBe(before.mtimeNs);
});
