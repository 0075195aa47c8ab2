/**
 * Cleaning beside other processes, as an ordinary user and against what stands in the way: builders and lease
 * holders that live and die, other owners, mounts, a file system without locks, a second cleaner.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CleanupPlan, PlanOptions } from '../../../src/cleanup/plan.ts';
import { applied, planOf } from '../../fixtures/cleanup.ts';
import {
  giveTo,
  isRoot,
  KiB,
  nobody,
  startProcess,
  store,
  type Scenario,
  type StoreProcess,
} from '../../fixtures/store.ts';
import type { AppliedReport } from '../../fixtures/store-protocol.ts';
import { straceProblem, Tracer } from '../../fixtures/store-strace.ts';

const content = { bytes: 64 * KiB, seed: 3 };

async function worker(scenario: Scenario, uid?: number): Promise<StoreProcess> {
  const process = await startProcess(uid === undefined ? {} : { uid });
  await process.do('open', { root: scenario.root });
  return process;
}

async function plannedBy(process: StoreProcess, options: PlanOptions = {}): Promise<CleanupPlan> {
  const plan = await process.do('planCleanup', options);
  if ('code' in plan) throw new Error(plan.message);
  return plan;
}

async function appliedBy(process: StoreProcess, plan: CleanupPlan): Promise<AppliedReport> {
  const report = await process.do('applyCleanup', { plan });
  if ('code' in report) throw new Error(report.message);
  return report;
}

test("S9: a live build's staging stays, a dead one's goes, and the holder is named by pid and command", async () => {
  const scenario = await store().made();
  const builder = await worker(scenario);
  const building = builder.build({ label: 'a', ...content, pause: 'midway' });
  await building.inside;
  // It is asked for before the build and after: neither plan takes it while it lives.
  const before = await planOf(scenario);
  expect(before.entries).toEqual([]);
  expect(before.kept).toMatchObject([{ because: 'building', holders: [{ pid: builder.pid }] }]);
  expect(before.kept[0]?.reason).toContain('store-process.ts');
  expect((await applied(before)).results).toEqual([]);
  await builder.kill();
  const after = await planOf(scenario);
  expect(after.entries).toMatchObject([{ group: 'dead-builds' }]);
  expect((await applied(after)).results).toMatchObject([{ status: 'removed' }]);
  expect(scenario.names('tmp')).toEqual([]);
});

test('a build that starts between plan and application keeps its key', async () => {
  const scenario = await store().deadBuild('a').made();
  const plan = await planOf(scenario);
  const builder = await worker(scenario);
  const building = builder.build({ label: 'a', ...content, pause: 'midway' });
  await building.inside;
  const staged = scenario.names('tmp');
  // The dead one was cleared by the build; the name that is there now is in no plan.
  expect((await applied(plan)).results).toMatchObject([{ status: 'in-use' }]);
  expect(scenario.names('tmp')).toEqual(staged);
  await building.go();
  expect((await building.result).status).toBe('built');
});

test('a lease of another process keeps its artifact until that process is gone', async () => {
  const scenario = await store().artifact('a', content).made();
  const chosen = [`artifacts/${scenario.key('a')}`];
  const early = await planOf(scenario, { groups: [], chosen });
  const reader = await worker(scenario);
  expect(await reader.lookup({ label: 'a', hold: true })).toMatchObject({ status: 'hit' });
  expect((await planOf(scenario, { groups: [], chosen })).kept).toMatchObject([
    { because: 'leased', holders: [{ pid: reader.pid }] },
  ]);
  const { results } = await applied(early);
  expect(results).toMatchObject([{ status: 'in-use', failure: { code: 'active_lease', retryable: true } }]);
  expect(results[0]?.failure?.message).toContain(`process ${reader.pid} (`);
  expect(await reader.do('inspect', { label: 'a', validation: 'full_checksum' })).toMatchObject({
    status: 'hit',
  });
  await reader.kill();
  const late = await planOf(scenario, { groups: [], chosen });
  expect((await applied(late)).results).toMatchObject([{ status: 'removed' }]);
  expect(scenario.names('artifacts')).toEqual([]);
});

test('two cleaners at once: each entry goes once, and neither fails', async () => {
  const labels = Array.from({ length: 12 }, (_, index) => `label-${index}`);
  const scenario = await labels.reduce((builder, label) => builder.deadBuild(label), store()).made();
  const cleaners = await Promise.all([worker(scenario), worker(scenario)]);
  const plans = await Promise.all(cleaners.map((cleaner) => plannedBy(cleaner)));
  const reports = await Promise.all(
    cleaners.map((cleaner, index) => appliedBy(cleaner, plans[index] as CleanupPlan)),
  );
  const results = reports.flatMap((report) => report.results);
  const removed = results.filter(({ status }) => status === 'removed').map(({ id }) => id);
  expect(removed).toHaveLength(new Set(removed).size);
  for (const { status } of results) expect(['removed', 'gone', 'in-use']).toContain(status);
  // Where both were at the same entry in the same instant one of them let it be; nothing is lost by that.
  await applied(await planOf(scenario));
  expect(scenario.names('tmp')).toEqual([]);
});

test('the same plan in two processes removes nothing twice', async () => {
  const scenario = await store().deadBuild('a').deadBuild('b').made();
  const [first, second] = await Promise.all([worker(scenario), worker(scenario)]);
  const plan = await plannedBy(first);
  expect((await appliedBy(first, plan)).summary.counts.removed).toBe(2);
  expect((await appliedBy(second, plan)).summary.counts).toMatchObject({ removed: 0, gone: 2, failed: 0 });
  expect(await first.do('applyCleanup', { plan })).toMatchObject({
    message: expect.stringContaining('already') as string,
  });
});

describe.skipIf(!isRoot)('as an ordinary user', () => {
  async function ofNobody(): Promise<{ scenario: Scenario; user: StoreProcess }> {
    const scenario = await store().artifact('a', content).quarantined().deadBuild('b').deadBuild('c').made();
    giveTo(nobody, join(scenario.root, '..'));
    return { scenario, user: await worker(scenario, nobody) };
  }
  const staged = (scenario: Scenario, label: string): string =>
    scenario.names('tmp').find((name) => name.startsWith(scenario.key(label))) as string;

  test('0555 directories go as they are', async () => {
    const { scenario, user } = await ofNobody();
    const { summary } = await appliedBy(user, await plannedBy(user));
    expect(summary.counts.removed).toBe(3);
    expect(scenario.names('quarantine')).toEqual([]);
  });

  test('S11: what belongs to somebody else is planned as kept; found later, it is told before anything goes', async () => {
    const { scenario, user } = await ofNobody();
    const early = await plannedBy(user);
    const name = staged(scenario, 'b');
    mkdirSync(scenario.path('tmp', name, 'theirs'), { mode: 0o755 });
    writeFileSync(scenario.path('tmp', name, 'theirs', 'file'), 'x');
    const late = await plannedBy(user);
    expect(late.kept).toMatchObject([{ id: `tmp/${name}`, because: 'not-removable' }]);
    expect(late.kept[0]?.reason).toContain('belongs to user 0');

    const { results } = await appliedBy(user, early);
    expect(results.map(({ id, status }) => `${status} ${id === `tmp/${name}` ? 'b' : ''}`)).toEqual([
      'refused b',
      'removed ',
      'removed ',
    ]);
    expect(results[0]?.failure).toMatchObject({ retryable: false });
    expect(existsSync(scenario.path('tmp', name, 'weights.safetensors'))).toBe(true);
  });

  test("S6: another user's lock file is not taken for a free lock", async () => {
    const { scenario, user } = await ofNobody();
    const lock = scenario.path('locks', `${scenario.key('b')}.build.lock`);
    writeFileSync(lock, '', { mode: 0o644 });
    chownSync(lock, 0, 0);
    const plan = await plannedBy(user);
    expect(plan.kept).toMatchObject([{ because: 'unknown-lock', holders: [] }]);
    expect(plan.entries).toHaveLength(2);
  });

  test('a directory of the store that is closed for writing is told before anything goes', async () => {
    const { scenario, user } = await ofNobody();
    const plan = await plannedBy(user);
    chmodSync(scenario.path('quarantine'), 0o500);
    expect(await user.do('applyCleanup', { plan })).toMatchObject({
      retryable: false,
      message: expect.stringContaining('cannot be written') as string,
    });
    chmodSync(scenario.path('quarantine'), 0o700);
    expect(scenario.names('tmp')).toHaveLength(2);
    // A refusal leaves the plan good.
    expect((await appliedBy(user, plan)).summary.counts.removed).toBe(3);
  });
});

test.skipIf(straceProblem !== null)('a store whose file system cannot lock is refused', async () => {
  const scenario = await store().deadBuild('a').made();
  const cleaner = await worker(scenario);
  const plan = await plannedBy(cleaner);
  const trace = await new Tracer().attach(cleaner.pid, {
    calls: ['flock'],
    inject: 'flock:error=ENOLCK',
    thread: cleaner.pid,
  });
  expect(await cleaner.do('applyCleanup', { plan })).toMatchObject({
    retryable: false,
    message: expect.stringContaining('cannot lock') as string,
  });
  await trace.end();
  expect(scenario.names('tmp')).toHaveLength(1);
});

test.each(['bind', 'tmpfs'])(
  'a %s mount in an entry: the entry stays, what is mounted is not touched',
  async (kind) => {
    const scenario = await store().artifact('elsewhere').deadBuild('a').deadBuild('b').made();
    const early = await planOf(scenario);
    const [name] = scenario.names('tmp').filter((entry) => entry.startsWith(scenario.key('a'))) as [string];
    const inside = scenario.path('tmp', name, 'mounted');
    mkdirSync(inside);
    const elsewhere = join(scenario.root, '..', 'precious');
    mkdirSync(elsewhere);
    const mount = spawnSync(
      'mount',
      kind === 'bind' ? ['--bind', elsewhere, inside] : ['-t', 'tmpfs', 'none', inside],
    );
    if (mount.status !== 0) {
      console.log(`not shown here: this user may not mount (${mount.stderr.toString().trim()})`);
      return;
    }
    onTestFinished(() => void spawnSync('umount', [inside]));
    writeFileSync(join(inside, 'canary'), 'alive');
    const late = await planOf(scenario);
    expect(late.kept).toMatchObject([{ id: `tmp/${name}`, because: 'not-removable' }]);
    expect(late.kept[0]?.reason).toContain('mounted');
    const { results } = await applied(early);
    expect(results.map(({ status }) => status)).toEqual(['refused', 'removed']);
    expect(readFileSync(join(inside, 'canary'), 'utf8')).toBe('alive');
    expect(existsSync(scenario.path('tmp', name, 'weights.safetensors'))).toBe(true);
    expect(spawnSync('umount', [inside]).status).toBe(0);
  },
);

test('S10: a root that became a link to somewhere else is not cleaned', async () => {
  const scenario = await store().deadBuild('a').made();
  const other = await store().deadBuild('a').made();
  const cleaner = await worker(scenario);
  const plan = await plannedBy(cleaner);
  renameSync(scenario.root, `${scenario.root}-moved`);
  spawnSync('ln', ['-s', other.root, scenario.root]);
  expect(await cleaner.do('applyCleanup', { plan })).toMatchObject({ retryable: false });
  expect(other.names('tmp')).toHaveLength(1);
});
