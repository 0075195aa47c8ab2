/** `clean`: shown first, done only when it is asked for, and in the words of its exit codes. */
import { chmodSync, mkdirSync, readdirSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { History } from '../../../src/catalog/history.ts';
import { startProcess } from '../../fixtures/store.ts';
import { Place, type CommandDocument } from './weightroom.ts';

interface CleanDocument extends CommandDocument {
  readonly entries: CommandDocument['entries'] &
    readonly { readonly id: string; readonly group: string; readonly reason: string }[];
  readonly kept: readonly { readonly id: string; readonly because: string; readonly reason: string }[];
  readonly groups: readonly { readonly group: string; readonly unavailable: string | null }[];
  readonly applied: {
    readonly results: readonly { readonly id: string; readonly status: string }[];
    readonly removed_bytes: number;
    readonly filesystem_gained_bytes: number;
  } | null;
}

const leftoverKey = 'a'.repeat(64);

/** A store with a published artifact and what a dead build left. */
async function untidy(): Promise<{ place: Place; root: string; key: string }> {
  const place = new Place();
  const root = await place.store();
  const key = await place.built(root, place.checkpoint());
  const staged = join(root, 'tmp', `${leftoverKey}.1.x`);
  mkdirSync(staged);
  writeFileSync(join(staged, 'weights'), Buffer.alloc(300_000));
  return { place, root, key };
}

async function clean(
  place: Place,
  ...words: string[]
): Promise<{ code: number | null; document: CleanDocument }> {
  return (await place.json('clean', ...words)) as unknown as { code: number | null; document: CleanDocument };
}

it('a dry run shows and changes nothing; --apply does what it showed', async () => {
  const { place, root, key } = await untidy();
  const { stdout } = await place.run('clean', root);
  expect(stdout).toContain('dead-builds');
  expect(stdout).toContain('293.0 KiB');
  expect(stdout).toContain('Nothing was changed.');
  const dry = await clean(place, root);
  expect(dry).toMatchObject({
    code: 0,
    document: {
      entries: [{ id: `tmp/${leftoverKey}.1.x`, group: 'dead-builds', bytes: 300_000 }],
      applied: null,
    },
  });
  expect(readdirSync(join(root, 'tmp'))).toHaveLength(1);

  const done = await clean(place, root, '--apply');
  expect(done).toMatchObject({
    code: 0,
    document: { applied: { results: [{ status: 'removed' }], removed_bytes: 300_000 }, failure: null },
  });
  expect(readdirSync(join(root, 'tmp'))).toEqual([]);
  expect(readdirSync(join(root, 'artifacts'))).toEqual([key]);
  expect((await place.run('clean', root)).stdout).toContain('Nothing can go.');
  expect((await place.run('clean', root, '--apply', '-q')).stdout).toBe('');
});

it('a published artifact goes only when its group is asked for', async () => {
  const { place, root, key } = await untidy();
  writeFileSync(join(root, 'deny', `${key}.json`), '{"reason":"checksum_mismatch"}', { mode: 0o444 });
  expect((await place.run('clean', root)).stdout).toContain('--include denied');
  expect((await clean(place, root, '--apply')).code).toBe(0);
  expect(readdirSync(join(root, 'artifacts'))).toEqual([key]);
  expect(
    (await clean(place, root, '--apply', '--include', 'denied')).document.applied?.results,
  ).toMatchObject([{ id: `artifacts/${key}`, status: 'removed' }]);
  expect(readdirSync(join(root, 'artifacts'))).toEqual([]);
  expect(readdirSync(join(root, 'deny'))).toEqual([]);
});

it('unused is not offered where leases were not watched, and says so', async () => {
  const { place, root } = await untidy();
  const { code, document } = await clean(place, root, '--include', 'unused', '--older-than', '12h');
  expect(code).toBe(0);
  expect(document.groups.find(({ group }) => group === 'unused')?.unavailable).toContain('not watched');
  expect((await place.run('clean', root, '--include', 'unused')).stdout).toContain('Not offered: unused');
});

it('unused is offered where leases were watched for long enough; what went is in the history', async () => {
  const { place, root, key } = await untidy();
  const { document: shown } = await place.json('domain', 'show', root);
  const uuid = (shown as unknown as { domain_uuid: string }).domain_uuid;
  const hour = 3_600_000;
  const longAgo = (Date.now() - 30 * hour) / 1000;
  utimesSync(join(root, 'artifacts', key), longAgo, longAgo);
  const path = place.at('state', 'weightroom', 'history.sqlite');
  const before = await History.open(path);
  for (const hoursAgo of [20, 1]) before.sawLeases(uuid, [], Date.now() - hoursAgo * hour);
  before.close();
  const ask = async (age: string): Promise<string[]> => {
    const { document } = await clean(place, root, '--include', 'unused', '--older-than', age);
    return (document.entries as readonly { readonly group: string }[]).map(({ group }) => group);
  };
  expect(await ask('1d')).toEqual(['dead-builds']);
  expect(await ask('12h')).toEqual(['dead-builds', 'unused']);
  const done = await clean(place, root, '--include', 'unused', '--older-than', '12h', '--apply');
  expect(done.code).toBe(0);
  const after = await History.open(path);
  const [cleaned] = after.cleanups(uuid, 5);
  after.close();
  expect(cleaned?.plannedBytes).toBe(done.document.applied?.removed_bytes);
});

it('what is in use stays, and its holder is named', async () => {
  const { place, root } = await untidy();
  const holder = await startProcess();
  await holder.do('open', { root });
  await holder.do('lock', { name: `${leftoverKey}.build.lock` });
  const { code, document } = await clean(place, root, '--apply');
  expect(code).toBe(0);
  expect(document.kept).toMatchObject([{ because: 'building' }]);
  expect(document.kept[0]?.reason).toContain(`process ${holder.pid} (`);
  expect((await place.run('clean', root)).stdout).toContain(`process ${holder.pid} (`);
  expect(readdirSync(join(root, 'tmp'))).toHaveLength(1);
});

it.each([
  [['--include', 'denid'], 'Did you mean denied?'],
  [['--include', 'chosen'], 'there is no group'],
  [['--older-than', '30d'], '--include unused'],
  [['--include', 'unused', '--older-than', '30'], '30d'],
  [['--keep-latest', '2'], '--include superseded'],
  [['--include', 'superseded', '--keep-latest', '0'], '1 or more'],
])('wrong use: %j', async (words, message) => {
  const place = new Place();
  const { code, stderr } = await place.run('clean', place.at('nowhere'), ...words);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});

it('quarantine restore puts back what is whole, and leaves what is not', async () => {
  const { place, root, key } = await untidy();
  const name = `${key}.validation_failure.00ff`;
  const artifact = join(root, 'artifacts', key);
  const quarantined = join(root, 'quarantine', name);
  chmodSync(artifact, 0o755);
  renameSync(artifact, quarantined);
  chmodSync(quarantined, 0o555);
  const restored = await place.json('quarantine', 'restore', root, key.slice(0, 10));
  expect(restored).toMatchObject({ code: 0, document: { key, failure: null } });
  expect((await place.json('verify', root, '--full')).document).toMatchObject({ valid: 1, failure: null });
  const again = await place.json('quarantine', 'restore', root, name);
  expect(again).toMatchObject({ code: 3, document: { failure: { code: 'local_miss' } } });
});
