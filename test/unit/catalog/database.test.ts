/** A database file in every state that it can be found in. */
import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cacheKind } from '../../../src/catalog/cache-schema.ts';
import {
  openDatabase,
  type DatabaseKind,
  type OpenedDatabase,
  type OpenOptions,
} from '../../../src/catalog/database.ts';
import { historyKind } from '../../../src/catalog/history-schema.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

const kind: DatabaseKind = {
  name: 'the test',
  loss: 'Nothing is lost.',
  applicationId: 77,
  migrations: [
    'CREATE TABLE one (value TEXT) STRICT',
    'ALTER TABLE one ADD COLUMN more TEXT',
    'CREATE TABLE two (value TEXT REFERENCES one) STRICT',
  ],
};

async function opened(path: string, of = kind, options: OpenOptions = {}): Promise<OpenedDatabase> {
  const database = await openDatabase(path, of, { busyMs: 100, ...options });
  onTestFinished(() => void database.connection.close());
  return database;
}

function versionOf({ connection }: OpenedDatabase): unknown {
  return connection.pragma('user_version', { simple: true });
}

/** As an earlier version left it. */
function leftBy(path: string, of: DatabaseKind, version: number): void {
  const database = new Database(path);
  for (const migration of of.migrations.slice(0, version)) database.exec(migration);
  database.pragma(`application_id = ${of.applicationId}`);
  database.pragma(`user_version = ${version}`);
  database.close();
}

function tablesOf(path: string): unknown[] {
  const database = new Database(path, { readonly: true });
  const tables = database.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2').all();
  database.close();
  return tables;
}

test('a new one: write-ahead log, foreign keys, the newest version, and as it was when it is opened again', async () => {
  const path = join(temporaryFolder(), 'deep', 'er', 'a.sqlite');
  const first = await openDatabase(path, kind);
  expect(first).toMatchObject({ isKept: true, problem: null });
  expect(versionOf(first)).toBe(3);
  expect(first.connection.pragma('journal_mode', { simple: true })).toBe('wal');
  expect(first.connection.pragma('foreign_keys', { simple: true })).toBe(1);
  first.connection.exec(`INSERT INTO one (value) VALUES ('kept')`);
  first.connection.close();
  const again = await opened(path);
  expect(again.connection.prepare('SELECT value FROM one').all()).toEqual([{ value: 'kept' }]);
});

describe.each([kind, cacheKind, historyKind])('$name, migrated from every earlier version', (of) => {
  test.each(of.migrations.map((_, version) => version))('from version %i', async (version) => {
    const folder = temporaryFolder();
    leftBy(join(folder, 'old.sqlite'), of, version);
    const { connection, problem } = await opened(join(folder, 'old.sqlite'), of);
    expect(problem).toBeNull();
    expect(connection.pragma('user_version', { simple: true })).toBe(of.migrations.length);
    await opened(join(folder, 'new.sqlite'), of);
    expect(tablesOf(join(folder, 'old.sqlite'))).toEqual(tablesOf(join(folder, 'new.sqlite')));
  });
});

test('what an earlier version kept is there after the migration', async () => {
  const path = join(temporaryFolder(), 'a.sqlite');
  leftBy(path, kind, 1);
  const before = new Database(path);
  before.exec(`INSERT INTO one VALUES ('old')`);
  before.close();
  const { connection } = await opened(path);
  expect(connection.prepare('SELECT * FROM one').all()).toEqual([{ value: 'old', more: null }]);
});

test('a migration that fails leaves the version before it', async () => {
  const path = join(temporaryFolder(), 'a.sqlite');
  leftBy(path, kind, 2);
  const broken = { ...kind, migrations: [...kind.migrations.slice(0, 2), 'CREATE TABLE x (a); NONSENSE'] };
  await expect(openDatabase(path, broken)).rejects.toThrow('NONSENSE');
  const after = new Database(path, { readonly: true });
  onTestFinished(() => void after.close());
  expect(after.pragma('user_version', { simple: true })).toBe(2);
  expect(after.prepare(`SELECT count(*) AS n FROM sqlite_schema WHERE name = 'x'`).get()).toEqual({ n: 0 });
});

async function filled(path: string): Promise<void> {
  const { connection } = await openDatabase(path, kind);
  const put = connection.prepare('INSERT INTO one (value) VALUES (?)');
  connection.transaction(() => {
    for (let n = 0; n < 5000; n += 1) put.run(`value ${n}`.repeat(10));
  })();
  connection.close();
}

test.each([
  ['garbage', (path: string) => writeFileSync(path, 'this is no database, '.repeat(1000))],
  ['truncated', (path: string) => truncateSync(path, 8192)],
  ['truncated within a page', (path: string) => truncateSync(path, 5000)],
  [
    'a page of zeros inside',
    (path: string) => {
      const bytes = readFileSync(path);
      bytes.fill(0, 4096, 5 * 4096);
      writeFileSync(path, bytes);
    },
  ],
  [
    'of another program',
    (path: string) => {
      rmSync(path);
      const other = new Database(path);
      other.exec('CREATE TABLE theirs (a)');
      other.close();
    },
  ],
])('%s: set aside, begun anew, and said', async (_, damage) => {
  const path = join(temporaryFolder(), 'a.sqlite');
  await filled(path);
  damage(path);
  const damaged = readFileSync(path);
  const { connection, isKept, problem } = await opened(path);
  expect({ isKept, problem }).toEqual({
    isKept: true,
    problem: expect.stringContaining('set aside') as string,
  });
  expect(problem).toContain('Nothing is lost.');
  expect(connection.prepare('SELECT count(*) AS n FROM one').get()).toEqual({ n: 0 });
  expect(readFileSync(`${path}.damaged`).equals(damaged)).toBe(true);
  connection.close();
  expect(await opened(path)).toMatchObject({ isKept: true, problem: null });
});

test('an empty file is a new one', async () => {
  const path = join(temporaryFolder(), 'a.sqlite');
  writeFileSync(path, '');
  expect(await opened(path)).toMatchObject({ isKept: true, problem: null });
});

test('written by a newer version: left as it is, and said', async () => {
  const path = join(temporaryFolder(), 'a.sqlite');
  leftBy(path, kind, 3);
  const newer = new Database(path);
  newer.pragma('user_version = 4');
  newer.close();
  const before = readFileSync(path);
  const database = await opened(path);
  expect(database).toMatchObject({
    isKept: false,
    problem: expect.stringContaining('a newer Weightroom') as string,
  });
  expect(versionOf(database)).toBe(3);
  expect(readFileSync(path).equals(before)).toBe(true);
});

test('on a network file system: no write-ahead log, kept, and said', async () => {
  const path = join(temporaryFolder(), 'a.sqlite');
  (await openDatabase(path, kind)).connection.close();
  const { connection, isKept, problem } = await opened(path, kind, { filesystemOf: () => 'nfs4' });
  expect({ isKept, problem }).toEqual({
    isKept: true,
    problem: expect.stringContaining('network') as string,
  });
  expect(connection.pragma('journal_mode', { simple: true })).toBe('delete');
});

test('no folder can be made: in memory, and said', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'file'), '');
  const database = await opened(join(folder, 'file', 'a.sqlite'));
  expect(database).toMatchObject({
    isKept: false,
    problem: expect.stringContaining('is not used') as string,
  });
  expect(statSync(join(folder, 'file')).size).toBe(0);
});
