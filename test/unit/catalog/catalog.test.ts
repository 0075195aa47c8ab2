/** What the catalog answers, and what it reads for it. */
import { chmodSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { Catalog } from '../../../src/catalog/catalog.ts';
import { SourceDigests } from '../../../src/catalog/source-digests.ts';
import { inventory } from '../../../src/store/inventory.ts';
import { native } from '../../../native/index.ts';
import { store, temporaryFolder, type Scenario } from '../../fixtures/store.ts';

async function catalogAt(path: string): Promise<Catalog> {
  const catalog = await Catalog.open(path, { busyMs: 100 });
  onTestFinished(() => catalog.close());
  return catalog;
}

const newCatalog = (): Promise<Catalog> => catalogAt(join(temporaryFolder(), 'catalog.sqlite'));

async function refreshed(catalog: Catalog, { domain }: Scenario): Promise<number> {
  return (await catalog.refresh(domain, await inventory(domain))).read;
}

async function differencesOf(catalog: Catalog, { domain }: Scenario): Promise<unknown> {
  return await catalog.check(domain, await inventory(domain));
}

const all = { words: [], offset: 0, limit: 100 };

test('only what changed is read again, also by the next process', async () => {
  const made = await store().artifact('one').artifact('two').artifact('gone').denied().made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const catalog = await catalogAt(path);
  expect(await refreshed(catalog, made)).toBe(4);
  expect(await refreshed(catalog, made)).toBe(0);
  await made.buildStatus('three');
  expect(await refreshed(catalog, made)).toBe(1);
  const next = await catalogAt(path);
  expect(await refreshed(next, made)).toBe(0);
  expect(await differencesOf(next, made)).toEqual([]);
});

test('an entry that changed in any way is never served from it', async () => {
  const made = await store().artifact('one').made();
  const catalog = await newCatalog();
  await refreshed(catalog, made);
  const manifest = made.artifactPath('one', 'manifest.json');
  const { mtime } = statSync(manifest);
  const text = readFileSync(manifest, 'utf8');
  chmodSync(manifest, 0o644);
  // The same length and the same time.
  writeFileSync(manifest, text.replace('test/one', 'test/eno'));
  utimesSync(manifest, mtime, mtime);
  chmodSync(manifest, 0o444);
  expect(await catalog.check(made.domain, await inventory(made.domain))).toMatchObject([
    { kind: 'outdated' },
  ]);
  const { facts, read } = await catalog.refresh(made.domain, await inventory(made.domain));
  expect(read).toBe(1);
  expect(facts).toMatchObject([
    { model: 'test/eno', problem: expect.stringContaining('identity') as string },
  ]);
  expect(await differencesOf(catalog, made)).toEqual([]);
});

test('another store under the same root has nothing of the first', async () => {
  const root = join(temporaryFolder(), 'store');
  const catalog = await newCatalog();
  await refreshed(catalog, await store({ root }).artifact('one').made());
  renameSync(root, `${root}.away`);
  const other = await store({ root }).artifact('other').made();
  await refreshed(catalog, other);
  const { rows } = await catalog.find(other.domain, all);
  expect(rows.map(({ model }) => model)).toEqual(['test/other']);
});

test('the overview adds up to the inventory, three ways', async () => {
  const made = await store().artifact('a').artifact('b').quarantined().artifact('c').denied().made();
  const catalog = await newCatalog();
  await refreshed(catalog, made);
  const { entries } = await inventory(made.domain);
  const groups = await catalog.overview(made.domain);
  for (const way of ['bytes', 'allocatedBytes', 'freeableBytes'] as const) {
    const sum = (of: readonly { readonly [key in typeof way]: number }[]): number =>
      of.reduce((total, one) => total + one[way], 0);
    expect(sum(groups)).toBe(sum(entries));
    expect(sum(groups)).toBeGreaterThan(0);
  }
  expect(groups.map(({ state, model }) => `${state} ${model}`).sort()).toEqual([
    'denied null',
    'quarantined test/b',
    'ready test/a',
    'ready test/c',
  ]);
});

test('words of artifacts and of tensors, dtypes and shapes', async () => {
  const made = await store().artifact('llama').artifact('qwen').made();
  const catalog = await newCatalog();
  await refreshed(catalog, made);
  const found = async (...words: string[]): Promise<(string | null)[]> =>
    (await catalog.find(made.domain, { ...all, words })).rows.map(({ model }) => model);
  expect((await found()).sort()).toEqual(['test/llama', 'test/qwen']);
  expect(await found('LLAMA')).toEqual(['test/llama']);
  expect(await found(made.key('qwen').slice(0, 12))).toEqual(['test/qwen']);
  expect(await found('100%')).toEqual([]);
  const everything = await catalog.find(made.domain, { ...all, dtype: 'uint8' });
  const [{ tensors: [tensor] = [] } = {}] = everything.rows;
  if (tensor === undefined) throw new Error('the scenario has no uint8 tensors');
  expect(await found('llama', tensor.name.slice(1).toUpperCase())).toEqual(['test/llama']);
  const { name, dtype, shape } = tensor;
  const exact = await catalog.find(made.domain, { ...all, words: [name], dtype, shape });
  expect(exact.artifacts).toBe(2);
  expect(exact.rows[0]?.tensors).toContainEqual(tensor);
  expect((await catalog.find(made.domain, { ...all, dtype, shape: '1x2x3' })).artifacts).toBe(0);
  expect((await catalog.find(made.domain, { ...all, limit: 1, offset: 1 })).rows).toHaveLength(1);
});

test('a check that was remembered is forgotten with what it was of', async () => {
  const made = await store().artifact('one').made();
  const catalog = await newCatalog();
  await refreshed(catalog, made);
  const [entry] = (await inventory(made.domain)).entries;
  if (entry === undefined) throw new Error('nothing there');
  const result = { atMs: 5, level: 'full_checksum', status: 'valid' } as const;
  await catalog.verified(made.domain, entry, result);
  const known = async (): Promise<unknown> => [
    ...(await catalog.verifications(made.domain, await inventory(made.domain))),
  ];
  expect(await known()).toEqual([[made.key('one'), result]]);
  chmodSync(made.artifactPath('one'), 0o755);
  expect(await known()).toEqual([]);
});

test('two that write the same domain end with what the disk says', async () => {
  const made = await store().artifact('one').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const [a, b] = [await catalogAt(path), await catalogAt(path)];
  const old = await inventory(made.domain);
  await refreshed(a, made);
  await made.buildStatus('two');
  await refreshed(b, made);
  expect(await a.isCurrent(made.domain)).toBe(false);
  await a.refresh(made.domain, old);
  await refreshed(b, made);
  expect(await differencesOf(b, made)).toEqual([]);
  await Promise.all([refreshed(a, made), refreshed(b, made)]);
  expect(await differencesOf(a, made)).toEqual([]);
});

test('damaged while it is open: begun anew, and the answers are the same', async () => {
  const made = await store().artifact('one').artifact('two').made();
  const path = join(temporaryFolder(), 'catalog.sqlite');
  const catalog = await catalogAt(path);
  await refreshed(catalog, made);
  const other = new Database(path);
  other.pragma('wal_checkpoint(TRUNCATE)');
  other.close();
  const bytes = readFileSync(path);
  bytes.fill(0xa5, 100);
  writeFileSync(path, bytes);
  await made.buildStatus('three');
  await refreshed(catalog, made);
  expect((await catalog.find(made.domain, all)).artifacts).toBe(3);
  expect(catalog.problem).toContain('damaged');
  await refreshed(catalog, made);
  expect(await differencesOf(catalog, made)).toEqual([]);
});

test('deleted while it is open: nothing is lost', async () => {
  const made = await store().artifact('one').made();
  const folder = temporaryFolder();
  const path = join(folder, 'catalog.sqlite');
  const catalog = await catalogAt(path);
  await refreshed(catalog, made);
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
  await made.buildStatus('two');
  await refreshed(catalog, made);
  expect((await catalog.find(made.domain, all)).artifacts).toBe(2);
  expect(await differencesOf(await catalogAt(path), made)).toHaveLength(2);
});

test('digests of source files, under the file as it was', () => {
  const database = new Database(':memory:');
  onTestFinished(() => void database.close());
  database.exec(`CREATE TABLE source_file (device TEXT, inode TEXT, size INTEGER, mtime_ns TEXT, ctime_ns TEXT,
    sha256 TEXT, digested_at_ms INTEGER, PRIMARY KEY (device, inode))`);
  const digests = new SourceDigests(database, () => 7);
  const path = join(temporaryFolder(), 'weights');
  writeFileSync(path, 'weights');
  const before = native.lstat(path);
  expect(digests.find(before)).toBeNull();
  digests.remember(before, 'ab');
  expect(digests.find(native.lstat(path))).toBe('ab');
  utimesSync(path, 1, 1);
  expect(digests.find(native.lstat(path))).toBeNull();
});
