/** What can go and what stays, on stores with every kind of leftover. Field reports S9, S11, S12 and D5. */
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { IdentityDocument } from '../../../src/store/identity.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { getOrBuild } from '../../../src/store/build.ts';
import { lookup } from '../../../src/store/lookup.ts';
import { dayMs, historyOf, planOf, plannedIn } from '../../fixtures/cleanup.ts';
import {
  closed,
  identityOf,
  isRoot,
  KiB,
  nobody,
  store,
  syntheticProducer,
  temporaryFolder,
  type Scenario,
} from '../../fixtures/store.ts';

const labels = ['ready', 'dead', 'tombstone', 'moving', 'old', 'stray', 'refused', 'broken'];

/** One entry of each kind that a cleanup knows. */
async function everything(): Promise<Scenario> {
  const scenario = await store()
    .artifact('ready')
    .deadBuild('dead')
    .artifact('tombstone')
    .quarantined('cleanup')
    .artifact('moving')
    .quarantined('validation_failure')
    .artifact('old')
    .quarantined('publication_failure')
    .artifact('refused')
    .denied()
    .artifact('broken')
    .invalidated()
    .made();
  const moving = scenario.names('quarantine').find((name) => name.startsWith(scenario.key('moving')));
  chmodSync(scenario.path('quarantine', moving as string), 0o1755);
  writeFileSync(scenario.denyPath('stray'), '{}', { mode: 0o444 });
  return scenario;
}

test('what nobody can use goes by itself; what is published only when it is asked for', async () => {
  const scenario = await everything();
  const plan = await planOf(scenario);
  expect(plannedIn(plan, scenario, labels).sort()).toEqual([
    'broken: half-moved',
    'dead: dead-builds',
    'moving: half-moved',
    'old: quarantined',
    'stray: stray-markers',
    'tombstone: interrupted-cleanups',
  ]);
  expect(plan.kept).toEqual([]);
  const denied = plan.groups.find(({ group }) => group === 'denied');
  expect(denied).toMatchObject({ isAskedFor: false, entries: 1, unavailable: null });

  const more = await planOf(scenario, { groups: ['denied'] });
  expect(plannedIn(more, scenario, labels)).toEqual(['refused: denied']);
  expect(more.entries[0]?.marker).not.toBeNull();
  expect(more.entries[0]?.reason).toContain('checksum_mismatch');
});

test('a plan is frozen plain JSON with the signature of what was seen', async () => {
  const scenario = await everything();
  const plan = await planOf(scenario, {}, { now: () => 12345 });
  expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
  expect(Object.isFrozen(plan) && Object.isFrozen(plan.entries) && Object.isFrozen(plan.entries[0])).toBe(
    true,
  );
  expect(plan).toMatchObject({
    madeAtMs: 12345,
    domain: { root: scenario.root, uuid: scenario.domain.uuid },
  });
  expect(plan.id).toMatch(/^[0-9a-f]{32}$/);
  for (const { place, name, signature } of plan.entries) {
    const stat = lstatSync(scenario.path(place, name), { bigint: true });
    expect(signature).toEqual({
      device: String(stat.dev),
      inode: String(stat.ino),
      sizeBytes: Number(stat.size),
      mtimeNs: String(stat.mtimeNs),
      ctimeNs: String(stat.ctimeNs),
    });
  }
});

test('D5: every byte below the root is planned, kept, published or other', async () => {
  const scenario = await everything();
  mkdirSync(join(scenario.root, 'source-digests-v1'));
  writeFileSync(join(scenario.root, 'source-digests-v1', 'digests'), 'x'.repeat(1000));
  writeFileSync(scenario.path('tmp', 'notes.txt'), 'not of the store');
  // Begin like entries and are none.
  const odd = `${scenario.key('ready')}x`;
  writeFileSync(scenario.path('tmp', odd), 'odd');
  writeFileSync(scenario.path('deny', odd), 'odd');
  const plan = await planOf(scenario, { groups: ['dead-builds', 'quarantined'] });
  const others = plan.other.map(({ path }) => path);
  for (const path of [
    'source-digests-v1',
    'tmp/notes.txt',
    `tmp/${odd}`,
    `deny/${odd}`,
    'locks',
    'domain.json',
  ]) {
    expect(others).toContain(path);
  }
  const all = await planOf(scenario, {
    groups: ['dead-builds', 'interrupted-cleanups', 'half-moved', 'quarantined', 'stray-markers', 'denied'],
  });
  const sum = (list: readonly { readonly bytes: number }[]): number =>
    list.reduce((total, { bytes }) => total + bytes, 0);
  const [ready] = await scenario
    .entries('ready')
    .then((entries) => entries.filter(({ key }) => key === scenario.key('ready')));
  expect(sum(all.entries) + sum(all.kept) + sum(all.other) + (ready?.bytes ?? 0)).toBe(all.storeBytes);
});

describe('who is in the way', () => {
  test('S9: a build lock decides, whatever pid the name has', async () => {
    // The name says our own pid, which lives; nobody holds the lock.
    const scenario = await store().made();
    const name = `${scenario.key('dead')}.${process.pid}.${'1'.repeat(32)}`;
    mkdirSync(scenario.path('tmp', name), { mode: 0o700 });
    expect((await planOf(scenario)).entries).toMatchObject([{ id: `tmp/${name}`, group: 'dead-builds' }]);

    const path = scenario.path('locks', `${scenario.key('dead')}.build.lock`);
    const lock = await FileLock.exclusive(path, withoutWaiting);
    onTestFinished(() => lock.release());
    const { entries, kept } = await planOf(scenario);
    expect(entries).toEqual([]);
    expect(kept).toMatchObject([{ because: 'building', holders: [{ pid: process.pid }] }]);
    expect(kept[0]?.reason).toContain(`process ${process.pid} (`);
  });

  test('a lease keeps everything of its key', async () => {
    const scenario = await store().artifact('a').quarantined().artifact('a').deadBuild('a').made();
    const found = await lookup(scenario.domain, identityOf('a'), { deadline: null });
    if (found.status !== 'hit') throw new Error(found.status);
    onTestFinished(() => found.lease.close());
    const plan = await planOf(scenario);
    expect(plan.entries).toEqual([]);
    expect(plan.kept.map(({ because, group }) => `${group} ${because}`).sort()).toEqual([
      'dead-builds leased',
      'quarantined leased',
    ]);
  });

  test.skipIf(!isRoot)('S11: what belongs to another user is kept, and says whose it is', async () => {
    const scenario = await store().artifact('a').quarantined().deadBuild('b').made();
    const name = scenario.names('tmp')[0] as string;
    chownSync(scenario.path('tmp', name), nobody, nobody);
    // Root may remove anything, so the look is taken as somebody else.
    vi.spyOn(process, 'geteuid').mockReturnValue(1);
    onTestFinished(() => void vi.restoreAllMocks());
    const plan = await planOf(scenario);
    expect(plan.entries).toEqual([]);
    expect(plan.kept.map(({ because, reason }) => `${because}: ${reason}`)).toEqual([
      expect.stringContaining('not-removable: '),
      expect.stringContaining('not-removable: '),
    ]);
    expect(plan.kept.some(({ reason }) => reason.includes(`belongs to user ${nobody}`))).toBe(true);
  });
});

test('a file where a directory should be, and links, are not followed and not planned', async () => {
  const scenario = await store().made();
  const outside = temporaryFolder();
  writeFileSync(join(outside, 'precious'), 'x'.repeat(5000));
  const key = scenario.key('a');
  symlinkSync(outside, scenario.path('quarantine', `${key}.validation_failure.1`));
  writeFileSync(scenario.path('quarantine', `${key}.validation_failure.2`), 'file');
  mkdirSync(scenario.path('tmp', `${key}.1.x`));
  symlinkSync(outside, scenario.path('tmp', `${key}.1.x`, 'link'));
  const { entries, kept } = await planOf(scenario);
  expect(entries).toMatchObject([{ place: 'tmp', bytes: 0, files: 0 }]);
  expect(kept).toMatchObject([{ because: 'not-removable' }, { because: 'not-removable' }]);
});

test('S12: a file with a link elsewhere frees nothing; two links in one entry free it once', async () => {
  const scenario = await store().made();
  const name = `${scenario.key('a')}.1.x`;
  mkdirSync(scenario.path('tmp', name));
  const bytes = Buffer.alloc(256 * KiB, 1);
  for (const file of ['alone', 'twice', 'outside']) writeFileSync(scenario.path('tmp', name, file), bytes);
  linkSync(scenario.path('tmp', name, 'twice'), scenario.path('tmp', name, 'again'));
  linkSync(scenario.path('tmp', name, 'outside'), join(scenario.root, 'kept'));
  const [entry] = (await planOf(scenario)).entries;
  const own = lstatSync(scenario.path('tmp', name)).blocks * 512;
  const blocks = lstatSync(scenario.path('tmp', name, 'alone')).blocks * 512;
  expect(entry).toMatchObject({
    bytes: 4 * bytes.length,
    files: 4,
    allocatedBytes: own + 3 * blocks,
    freedBytes: own + 2 * blocks,
  });
});

describe('superseded', () => {
  async function build(
    scenario: Scenario,
    change: Partial<IdentityDocument>,
    publishedDaysAgo: number,
  ): Promise<string> {
    const identity = identityOf('model', change);
    const result = closed(
      await getOrBuild(scenario.domain, identity, syntheticProducer(identity, { bytes: KiB }), {
        deadline: null,
      }),
    );
    expect(result.status).toBe('built');
    const at = (Date.now() - publishedDaysAgo * dayMs) / 1000;
    utimesSync(scenario.path('artifacts', identity.key), at, at);
    return identity.key;
  }
  const base = identityOf('model').document;
  const revision = (name: string): Partial<IdentityDocument> => ({
    source: { ...base.source, revision: name, fingerprint: `of ${name}` },
  });

  test('an older revision or producer version goes, another layout or component stays', async () => {
    const scenario = await store().made();
    const oldest = await build(scenario, revision('r0'), 9);
    const older = await build(scenario, revision('r1'), 5);
    const otherFiles = await build(
      scenario,
      { source: { ...base.source, revision: 'r2', fingerprint: 'other files' } },
      4,
    );
    const newest = await build(scenario, revision('r2'), 1);
    const oldProducer = await build(
      scenario,
      { ...revision('r2'), producer: { ...base.producer, version: '0' } },
      6,
    );
    await build(scenario, { ...revision('r0'), layout: { ...base.layout, name: 'tp2' } }, 9);
    await build(scenario, { ...revision('r0'), component: { ...base.component, name: 'vae' } }, 9);

    const plan = await planOf(scenario, { groups: ['superseded'] });
    expect(plan.entries.map(({ key }) => key).sort()).toEqual([oldest, older, oldProducer].sort());
    expect(plan.entries[0]?.reason).toContain(newest.slice(0, 12));
    expect(plan.entries[0]?.restsOn.map(({ key }) => key)).toEqual([newest]);
    expect(plan.entries.map(({ key }) => key)).not.toContain(otherFiles);

    const two = await planOf(scenario, { groups: ['superseded'], keepLatest: 2 });
    expect(two.entries.map(({ key }) => key).sort()).toEqual([oldest, oldProducer].sort());
    expect((await planOf(scenario, { groups: ['superseded'], keepLatest: 4 })).entries).toEqual([]);
  });

  test('what is not served supersedes nothing', async () => {
    const scenario = await store().made();
    await build(scenario, revision('r1'), 5);
    const newest = await build(scenario, revision('r2'), 1);
    writeFileSync(scenario.path('deny', `${newest}.json`), '{}');
    expect((await planOf(scenario, { groups: ['superseded'] })).entries).toEqual([]);
  });
});

describe('unused', () => {
  const asked = { groups: ['unused'], unusedAfterMs: 30 * dayMs } as const;

  test('without a history it is not offered, and says why', async () => {
    const scenario = await store().artifact('a').made();
    for (const history of [null, historyOf(null)]) {
      const plan = await planOf(scenario, asked, { history });
      expect(plan.entries).toEqual([]);
      const offer = plan.groups.find(({ group }) => group === 'unused');
      expect(offer).toMatchObject({ isAskedFor: true, entries: null });
      expect(offer?.unavailable).toMatch(/history|watched/);
    }
  });

  test('counts from the last lease, and never from before the watching or the publication', async () => {
    const scenario = await store().artifact('idle').artifact('used').artifact('new').made();
    const now = Date.now();
    for (const label of ['idle', 'used']) {
      const at = (now - 100 * dayMs) / 1000;
      utimesSync(scenario.artifactPath(label), at, at);
    }
    const leased = { [scenario.key('used')]: now - 3 * dayMs };
    const since = (days: number) =>
      planOf(scenario, asked, { history: historyOf(now - days * dayMs, leased) });
    expect(plannedIn(await since(40), scenario, ['idle', 'used', 'new'])).toEqual(['idle: unused']);
    expect((await since(20)).entries).toEqual([]);
  });
});

test('what is chosen by hand is planned whatever it is, but a marker alone never is', async () => {
  const scenario = await store().artifact('a').artifact('b').denied().made();
  const chosen = [`artifacts/${scenario.key('a')}`, `deny/${scenario.key('b')}.json`, 'artifacts/gone'];
  const plan = await planOf(scenario, { groups: [], chosen });
  expect(plan.entries).toMatchObject([{ id: chosen[0], group: 'chosen', marker: null }]);
  const denied = await planOf(scenario, { groups: [], chosen: [`artifacts/${scenario.key('b')}`] });
  expect(denied.entries[0]?.marker).not.toBeNull();
});

test('planning changes nothing and holds nothing', async () => {
  const scenario = await everything();
  const before = readdirSync(scenario.root, { recursive: true }).sort();
  await planOf(scenario, { groups: ['dead-builds', 'quarantined', 'denied', 'superseded'] });
  expect(readdirSync(scenario.root, { recursive: true }).sort()).toEqual(before);
  expect(await scenario.heldLocks()).toEqual([]);
});
