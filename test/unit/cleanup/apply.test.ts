/** Doing what a plan says: exactly that, once, and only while it is still true. */
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { apply } from '../../../src/cleanup/apply.ts';
import { planLifetimeMs, type CleanupPlan } from '../../../src/cleanup/plan.ts';
import { getOrBuild } from '../../../src/store/build.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { lookup } from '../../../src/store/lookup.ts';
import { applied, dayMs, historyOf, planOf } from '../../fixtures/cleanup.ts';
import {
  closed,
  identityOf,
  KiB,
  store,
  syntheticProducer,
  temporaryFolder,
  type Scenario,
} from '../../fixtures/store.ts';

const options = { now: Date.now, history: null };

async function refusalOf(plan: CleanupPlan, now = Date.now): Promise<string> {
  const outcome = await apply(plan, { ...options, now });
  if (outcome.ok) throw new Error('the plan was not refused');
  return outcome.failure.message;
}

test('everything that nobody can use goes, what is published stays, and what went is told to the byte', async () => {
  const scenario = await store()
    .artifact('ready')
    .deadBuild('dead')
    .artifact('a')
    .quarantined()
    .artifact('a')
    .withTombstone()
    .denied()
    .artifact('b')
    .invalidated()
    .made();
  writeFileSync(scenario.denyPath('stray'), '{}', { mode: 0o444 });
  const before = await scenario.storeBytes();
  const plan = await planOf(scenario);
  const { results, summary } = await applied(plan);
  expect(results.map(({ status }) => status)).toEqual(plan.entries.map(() => 'removed'));
  expect(results.map(({ id }) => id)).toEqual(plan.entries.map(({ id }) => id));
  expect(summary).toMatchObject({ planId: plan.id, isCancelled: false, entriesLeft: 0 });
  expect(await scenario.storeBytes()).toBe(before - summary.removedBytes);
  expect(scenario.names('tmp')).toEqual([]);
  expect(scenario.names('quarantine')).toEqual([]);
  expect(scenario.names('deny')).toEqual([`${scenario.key('a')}.json`]);
  expect(scenario.names('artifacts')).toEqual([scenario.key('a'), scenario.key('ready')].sort());
  expect((await scenario.lookup('ready', 'full_checksum')).status).toBe('hit');
  expect(await scenario.heldLocks()).toEqual([]);
});

test('a denied artifact goes with its marker; only what was asked for goes', async () => {
  const scenario = await store().artifact('a').denied().deadBuild('b').made();
  const { results } = await applied(await planOf(scenario, { groups: ['denied'] }));
  expect(results).toMatchObject([{ status: 'removed', group: 'denied' }]);
  expect(scenario.names('artifacts')).toEqual([]);
  expect(scenario.names('deny')).toEqual([]);
  expect(scenario.names('tmp')).toHaveLength(1);
});

test('of a key only the planned entry goes: an interrupted cleanup that was not asked for stays', async () => {
  const scenario = await store().artifact('a').quarantined().artifact('a').withTombstone().made();
  await applied(await planOf(scenario, { groups: ['quarantined'] }));
  expect(scenario.names('quarantine')).toEqual([expect.stringContaining('.cleanup.')]);
  expect((await scenario.lookup('a')).status).toBe('hit');
});

describe('a plan is refused, and nothing is touched,', () => {
  test('when it is old, or made in the future', async () => {
    const scenario = await store().deadBuild('a').made();
    const plan = await planOf(scenario);
    expect(await refusalOf(plan, () => plan.madeAtMs + planLifetimeMs + 1)).toContain('minutes old');
    expect(await refusalOf(plan, () => plan.madeAtMs - 1)).toContain('clock');
    expect(scenario.names('tmp')).toHaveLength(1);
    // A refusal of this kind does not use it up.
    expect((await applied(plan, { now: () => plan.madeAtMs + planLifetimeMs })).summary.counts.removed).toBe(
      1,
    );
  });

  test('when it was applied already, also by two at once and as a copy', async () => {
    const scenario = await store().deadBuild('a').made();
    const plan = await planOf(scenario);
    const both = await Promise.all([apply(plan, options), apply(structuredClone(plan), options)]);
    expect(both.map(({ ok }) => ok).sort()).toEqual([false, true]);
    for await (const _event of both.flatMap((one) => (one.ok ? [one.value] : []))[0] ?? []);
    expect(await refusalOf(plan)).toContain('already');
    expect(scenario.names('tmp')).toEqual([]);
  });

  test('when another store is there now', async () => {
    const [scenario, other] = await Promise.all([
      store().deadBuild('a').made(),
      store().deadBuild('a').made(),
    ]);
    const plan = await planOf(scenario);
    renameSync(scenario.root, `${scenario.root}-moved`);
    renameSync(other.root, scenario.root);
    expect(await refusalOf(plan)).toContain('not the store any more');
    expect(scenario.names('tmp')).toHaveLength(1);
  });
});

describe('what is not any more what the plan saw stays:', () => {
  type Change = readonly [what: string, (scenario: Scenario, name: string) => void];
  const changes: readonly Change[] = [
    ['touched', (scenario, name) => utimesSync(scenario.path('tmp', name), 1, 1)],
    ['with a new file', (scenario, name) => writeFileSync(scenario.path('tmp', name, 'new'), 'x')],
    [
      'grown inside',
      (scenario, name) => writeFileSync(scenario.path('tmp', name, 'weights.safetensors'), 'x'),
    ],
    ['with another mode', (scenario, name) => chmodSync(scenario.path('tmp', name), 0o755)],
    [
      'replaced',
      (scenario, name) => {
        rmSync(scenario.path('tmp', name), { recursive: true });
        mkdirSync(scenario.path('tmp', name));
      },
    ],
    [
      'replaced by a link',
      (scenario, name) => {
        rmSync(scenario.path('tmp', name), { recursive: true });
        symlinkSync('/', scenario.path('tmp', name));
      },
    ],
  ];
  test.each(changes)('%s', async (_what, change) => {
    const scenario = await store().deadBuild('a').made();
    const plan = await planOf(scenario);
    const [name] = scenario.names('tmp') as [string];
    change(scenario, name);
    const { results } = await applied(plan);
    expect(results).toMatchObject([{ status: 'changed', failure: { retryable: true } }]);
    expect(scenario.names('tmp')).toEqual([name]);
  });

  test('gone already is told as that, and is no failure', async () => {
    const scenario = await store().deadBuild('a').made();
    const plan = await planOf(scenario);
    rmSync(scenario.path('tmp', scenario.names('tmp')[0] as string), { recursive: true });
    expect((await applied(plan)).results).toMatchObject([{ status: 'gone', failure: null }]);
  });

  test('a stray marker whose artifact came back', async () => {
    const scenario = await store().made();
    writeFileSync(scenario.denyPath('a'), '{}', { mode: 0o444 });
    const plan = await planOf(scenario);
    // Somebody who does not know the rules puts an artifact beside it.
    const elsewhere = await store().artifact('a').made();
    renameSync(elsewhere.artifactPath('a'), scenario.artifactPath('a'));
    expect((await applied(plan)).results).toMatchObject([{ status: 'changed' }]);
    expect(existsSync(scenario.denyPath('a'))).toBe(true);
  });

  test('an artifact that was denied meanwhile, or is not denied any more', async () => {
    const scenario = await store().artifact('a').artifact('b').denied().made();
    const plan = await planOf(scenario, {
      groups: ['denied'],
      chosen: [`artifacts/${scenario.key('a')}`],
    });
    writeFileSync(scenario.denyPath('a'), '{}', { mode: 0o444 });
    rmSync(scenario.denyPath('b'));
    expect((await applied(plan)).results.map(({ status }) => status)).toEqual(['changed', 'changed']);
    expect(scenario.names('artifacts')).toHaveLength(2);
  });

  test('a superseded artifact whose newer one went', async () => {
    const scenario = await store().made();
    const base = identityOf('model').document;
    for (const [index, revision] of ['r1', 'r2'].entries()) {
      const identity = identityOf('model', { source: { ...base.source, revision } });
      closed(
        await getOrBuild(scenario.domain, identity, syntheticProducer(identity, { bytes: KiB }), {
          deadline: null,
        }),
      );
      utimesSync(scenario.path('artifacts', identity.key), 1000 + index, 1000 + index);
    }
    const first = await planOf(scenario, { groups: ['superseded'] });
    const newer = first.entries[0]?.restsOn[0]?.key as string;
    writeFileSync(scenario.path('deny', `${newer}.json`), '{}');
    expect((await applied(first)).results).toMatchObject([{ status: 'changed' }]);
    rmSync(scenario.path('deny', `${newer}.json`));
    expect((await applied(await planOf(scenario, { groups: ['superseded'] }))).results).toMatchObject([
      { status: 'removed' },
    ]);
    expect(scenario.names('artifacts')).toEqual([newer]);
  });

  test('an unused artifact that somebody was seen to use since', async () => {
    const scenario = await store().artifact('a').made();
    const now = Date.now();
    utimesSync(scenario.artifactPath('a'), 1, 1);
    const idle = historyOf(now - 90 * dayMs);
    const plan = () => planOf(scenario, { groups: ['unused'] }, { history: idle });
    const used = historyOf(now - 90 * dayMs, { [scenario.key('a')]: now });
    expect((await applied(await plan(), { history: used })).results).toMatchObject([{ status: 'changed' }]);
    expect((await applied(await plan(), { history: idle })).results).toMatchObject([{ status: 'removed' }]);
  });
});

test('what is built or leased since stays, and its holder is named', async () => {
  const scenario = await store().artifact('a').quarantined().artifact('a').deadBuild('b').made();
  const plan = await planOf(scenario);
  const found = await lookup(scenario.domain, identityOf('a'), { deadline: null });
  if (found.status !== 'hit') throw new Error(found.status);
  onTestFinished(() => found.lease.close());
  const lock = await FileLock.exclusive(
    scenario.path('locks', `${scenario.key('b')}.build.lock`),
    withoutWaiting,
  );
  onTestFinished(() => lock.release());
  const { results } = await applied(plan);
  expect(results.map(({ status, failure }) => [status, failure?.code])).toEqual([
    ['in-use', 'active_build_timeout'],
    ['in-use', 'active_lease'],
  ]);
  expect(results[0]?.failure?.message).toContain(`process ${process.pid} (`);
  expect(scenario.names('tmp')).toHaveLength(1);
});

test('links in an entry go, what they lead to stays', async () => {
  const scenario = await store().deadBuild('a').made();
  const outside = temporaryFolder();
  mkdirSync(join(outside, 'folder'));
  writeFileSync(join(outside, 'folder', 'precious'), 'precious');
  const [name] = scenario.names('tmp') as [string];
  symlinkSync(join(outside, 'folder'), scenario.path('tmp', name, 'folder'));
  symlinkSync('..', scenario.path('tmp', name, 'parent'));
  symlinkSync('self', scenario.path('tmp', name, 'self'));
  linkSync(join(outside, 'folder', 'precious'), scenario.path('tmp', name, 'hard'));
  mkdirSync(scenario.path('tmp', name, 'sealed'), { mode: 0 });
  const { results } = await applied(await planOf(scenario));
  expect(results).toMatchObject([{ status: 'removed' }]);
  expect(scenario.names('tmp')).toEqual([]);
  expect(readdirSync(join(outside, 'folder'))).toEqual(['precious']);
});

test('S12: before, an upper bound; after, what the file system really gained', async () => {
  const scenario = await store()
    .deadBuild('a', { bytes: 256 * KiB })
    .made();
  const plan = await planOf(scenario);
  let asked = 0;
  // Shared extents: the file system has 4 KiB more afterwards, whatever was unlinked.
  const freeBytesOf = (): number => (asked++ === 0 ? 1000 : 1000 + 4 * KiB);
  const { summary, results } = await applied(plan, { freeBytesOf });
  expect(results[0]?.unlinkedBytes).toBe(plan.entries[0]?.freedBytes);
  expect(summary.unlinkedBytes).toBeGreaterThanOrEqual(256 * KiB);
  expect(summary.gainedBytes).toBe(4 * KiB);
});

test('cancelled between two entries: what is left stays and is counted', async () => {
  const scenario = await store().deadBuild('a').deadBuild('b').deadBuild('c').made();
  const plan = await planOf(scenario);
  const cancelling = new AbortController();
  const outcome = await apply(plan, { ...options, signal: cancelling.signal });
  if (!outcome.ok) throw new Error(outcome.failure.message);
  let summary = null;
  for await (const event of outcome.value) {
    if (event.type === 'summary') summary = event.summary;
    cancelling.abort();
  }
  expect(summary).toMatchObject({ isCancelled: true, entriesLeft: 2, counts: { removed: 1 } });
  expect(scenario.names('tmp')).toHaveLength(2);
  expect((await applied(await planOf(scenario))).summary.counts.removed).toBe(2);
});

test('whoever leaves the run early leaves no lock behind', async () => {
  const scenario = await store().deadBuild('a').deadBuild('b').made();
  const outcome = await apply(await planOf(scenario), options);
  if (!outcome.ok) throw new Error(outcome.failure.message);
  for await (const _event of outcome.value) break;
  expect(await scenario.heldLocks()).toEqual([]);
  expect(scenario.names('tmp')).toHaveLength(1);
});
