/** Cleaning up through the contract: done by the store's own process, told as it goes, noted also when nobody listens. */
import { existsSync, mkdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { ActivityEntry } from '../../../src/contract/app-schemas.ts';
import { cleanupGroups, type CleanupPlan, type PlannedGroup } from '../../../src/contract/cleanup-schemas.ts';
import type { DeskClient } from '../../../src/contract/contract.ts';
import { artifactLock } from '../../../src/store/paths.ts';
import { startProcess, store, type Scenario } from '../../fixtures/store.ts';
import { DeskScene, readUntil, type Desk } from './desk-scene.ts';

async function opened(scenario: Scenario): Promise<{ desk: Desk; client: DeskClient; root: string }> {
  const desk = await new DeskScene().desk();
  const client = desk.inProcess();
  await client.stores.open({ root: scenario.root });
  return { desk, client, root: scenario.root };
}

function groupIn(plan: CleanupPlan, name: PlannedGroup['group']): PlannedGroup {
  return plan.groups.find(({ group }) => group === name) as PlannedGroup;
}

/** As soon as one is there. */
async function noted(client: DeskClient, kind: ActivityEntry['kind']): Promise<ActivityEntry> {
  for (;;) {
    const { entries } = await client.activity.list();
    const found = entries.find((entry) => entry.kind === kind);
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function addLeftovers(scenario: Scenario, count: number): void {
  for (let n = 0; n < count; n += 1) {
    mkdirSync(scenario.path('tmp', `${n.toString(16).padStart(64, '0')}.1.${'0'.repeat(32)}`));
  }
}

test('what nobody can use goes; what is in use stays and says whose it is', async () => {
  const scenario = await store()
    .artifact('served')
    .artifact('used')
    .denied()
    .artifact('broken')
    .quarantined()
    .deadBuild('dead')
    .made();
  const worker = await startProcess();
  await worker.do('open', { root: scenario.root });
  await worker.do('lock', { name: artifactLock(scenario.key('used')), shared: true });
  const { client, root } = await opened(scenario);
  const byItself = await client.cleanup.plan({ root });
  expect(groupIn(byItself, 'denied')).toMatchObject({
    isAskedFor: false,
    fitting: { entries: 1 },
    entries: [],
  });
  const plan = await client.cleanup.plan({ root, groups: [...cleanupGroups] });
  expect(plan.going.entries).toBe(2);
  expect(groupIn(plan, 'dead-builds').entries).toMatchObject([{ place: 'tmp', key: scenario.key('dead') }]);
  expect(groupIn(plan, 'quarantined').entries).toMatchObject([{ isRestorable: true, model: 'test/broken' }]);
  expect(groupIn(plan, 'denied').kept).toMatchObject([{ because: 'leased', key: scenario.key('used') }]);
  expect(groupIn(plan, 'denied').kept[0]?.reason).toContain(`process ${worker.pid}`);
  expect(groupIn(plan, 'unused').unavailable).toContain('no history');
  const events = await readUntil(await client.cleanup.apply({ root, planId: plan.id }));
  expect(events).toMatchObject([
    { type: 'entry', done: 1, total: 2, result: { status: 'removed' } },
    { type: 'entry', done: 2, total: 2, result: { status: 'removed' } },
    { type: 'result', summary: { counts: { removed: 2 }, removedBytes: plan.going.bytes } },
  ]);
  expect(scenario.names('tmp')).toEqual([]);
  expect(scenario.names('quarantine')).toEqual([]);
  for (const label of ['served', 'used']) expect(existsSync(scenario.artifactPath(label))).toBe(true);
  const { message } = await noted(client, 'store-cleaned');
  expect(message).toContain('2 entries removed');
  await expect(readUntil(await client.cleanup.apply({ root, planId: plan.id }))).rejects.toMatchObject({
    data: { message: expect.stringContaining('applied already') as string },
  });
});

test('more lines than a plan tells are asked for', async () => {
  const scenario = await store().made();
  addLeftovers(scenario, 130);
  const { client, root } = await opened(scenario);
  const plan = await client.cleanup.plan({ root });
  const { entries, going } = groupIn(plan, 'dead-builds');
  const rest = { root, planId: plan.id, group: 'dead-builds', offset: entries.length } as const;
  const { rows, total } = await client.cleanup.entries(rest);
  expect([going.entries, total]).toEqual([130, 130]);
  expect(new Set([...entries, ...rows].map(({ id }) => id)).size).toBe(130);
});

test('leaving stops it between two entries, and what went until then is noted', async () => {
  const scenario = await store().made();
  addLeftovers(scenario, 1000);
  const { client, root } = await opened(scenario);
  const plan = await client.cleanup.plan({ root });
  await readUntil(await client.cleanup.apply({ root, planId: plan.id }), () => true);
  const { message } = await noted(client, 'store-cleaned');
  const left = scenario.names('tmp').length;
  expect(left).toBeGreaterThan(0);
  expect(message).toContain(`It was stopped with ${left} entries to go.`);
});

test('a process that is killed meanwhile ends it with the reason; the next plan has what it left', async () => {
  const scenario = await store().made();
  addLeftovers(scenario, 1000);
  const { desk, client, root } = await opened(scenario);
  const plan = await client.cleanup.plan({ root });
  const { pid } = desk.workstation.stores.get(root);
  const applying = readUntil(await client.cleanup.apply({ root, planId: plan.id }), () => {
    process.kill(pid as number, 'SIGKILL');
    return false;
  });
  await expect(applying).rejects.toMatchObject({ data: { code: 'domain_unavailable', retryable: true } });
  expect((await noted(client, 'store-cleaned')).message).toContain('was cut off');
  // The process that kept the plan is gone.
  await expect(readUntil(await client.cleanup.apply({ root, planId: plan.id }))).rejects.toMatchObject({
    data: { message: expect.stringContaining('not known any more') as string },
  });
  const again = await client.cleanup.plan({ root });
  expect(again.going.entries).toBeGreaterThan(0);
  await readUntil(await client.cleanup.apply({ root, planId: again.id }));
  expect(scenario.names('tmp')).toEqual([]);
});

test('what is whole is restored from quarantine; what is damaged stays there', async () => {
  const scenario = await store()
    .artifact('whole')
    .quarantined()
    .artifact('damaged')
    .corrupted()
    .quarantined()
    .made();
  const { client, root } = await opened(scenario);
  const nameOf = (label: string): string =>
    scenario.names('quarantine').find((name) => name.startsWith(scenario.key(label))) as string;
  const damaged = client.cleanup.restore({ root, name: nameOf('damaged') });
  await expect(damaged.then((events) => readUntil(events))).rejects.toMatchObject({
    data: { code: 'checksum_mismatch' },
  });
  const events = await readUntil(await client.cleanup.restore({ root, name: nameOf('whole') }));
  expect(events.at(-1)).toMatchObject({ type: 'result', key: scenario.key('whole') });
  expect((await scenario.lookup('whole')).status).toBe('hit');
  expect(scenario.names('quarantine')).toEqual([nameOf('damaged')]);
  expect(await noted(client, 'artifact-restored')).toMatchObject({ root, key: scenario.key('whole') });
});
