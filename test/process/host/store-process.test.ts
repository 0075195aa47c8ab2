/** The process that reads a store can die, hang or outlive nobody, and the desk goes on. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { DomainChange } from '../../../src/contract/domain-schemas.ts';
import { isRunning } from '../production/domain-fixture.ts';
import { DeskScene, type Desk } from './desk-scene.ts';

function processOf(desk: Desk, root: string): number {
  const { pid } = desk.workstation.stores.get(root);
  if (pid === null) throw new Error(`nobody reads ${root}`);
  return pid;
}

async function until(isThere: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await isThere())) await new Promise((resolve) => setTimeout(resolve, 20));
}

test('each store has its own; it is told by its command line and ends with the desk', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const client = desk.inProcess();
  const roots = [await scene.store('one'), await scene.store('two')];
  for (const root of roots) await client.stores.open({ root });
  const pids = roots.map((root) => processOf(desk, root));
  expect(new Set(pids).size).toBe(2);
  for (const [index, root] of roots.entries()) {
    expect(readFileSync(`/proc/${pids[index]}/cmdline`, 'utf8').split('\0')).toContain(root);
  }
  await client.stores.forget({ root: roots[0] as string });
  await until(() => !isRunning(pids[0] as number));
  expect(isRunning(pids[1] as number)).toBe(true);
  await desk.close();
  expect(isRunning(pids[1] as number)).toBe(false);
});

test('one that is killed is told, and started anew by itself', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const client = desk.inProcess();
  const root = await scene.store();
  await client.stores.open({ root });
  const changes = (await client.domain.watch({ root }))[Symbol.asyncIterator]();
  const first = (await changes.next()) as IteratorYieldResult<DomainChange>;
  const killed = processOf(desk, root);
  process.kill(killed, 'SIGKILL');
  const seen: boolean[] = [];
  const revisions = [first.value.revision];
  while (seen.at(-1) !== true) {
    const { value } = (await changes.next()) as IteratorYieldResult<DomainChange>;
    seen.push(value.online);
    revisions.push(value.revision);
  }
  expect(seen).toEqual([false, true]);
  expect(new Set(revisions).size).toBe(3);
  expect(processOf(desk, root)).not.toBe(killed);
  expect(await client.stores.list()).toMatchObject([{ state: 'online', root }]);
});

test('a question that is open when it is killed fails with the reason', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const client = desk.inProcess();
  const root = await scene.store();
  await client.stores.open({ root });
  process.kill(processOf(desk, root), 'SIGSTOP');
  const asked = client.domain.inventory({ root });
  process.kill(processOf(desk, root), 'SIGKILL');
  await expect(asked).rejects.toMatchObject({
    code: 'FAILURE',
    data: {
      code: 'domain_unavailable',
      retryable: true,
      message: expect.stringContaining('SIGKILL') as string,
    },
  });
  expect((await client.domain.inventory({ root })).total).toBe(0);
});

test('one that hangs is given up and killed; other stores answer meanwhile', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk({ answerMs: 2000 });
  const client = desk.inProcess();
  const root = await scene.store();
  const other = await scene.store('other');
  await client.stores.open({ root });
  await client.stores.open({ root: other });
  const stuck = processOf(desk, root);
  process.kill(stuck, 'SIGSTOP');
  const asked = client.domain.summary({ root });
  expect((await client.domain.summary({ root: other })).store.state).toBe('online');
  await expect(asked).rejects.toMatchObject({
    data: { code: 'domain_unavailable', message: expect.stringContaining('has not answered') as string },
  });
  await until(() => !isRunning(stuck));
  await until(async () => (await client.stores.list())[0]?.state === 'online');
  expect(processOf(desk, root)).not.toBe(stuck);
});

test('one that dies again and again is left alone for a while', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const client = desk.inProcess();
  const root = await scene.store();
  await client.stores.open({ root });
  const store = desk.workstation.stores.get(root);
  for (let deaths = 0; deaths < 2; deaths += 1) {
    const pid = processOf(desk, root);
    process.kill(pid, 'SIGKILL');
    await until(() => store.pid === null);
    if (deaths === 0) expect(await client.stores.list()).toMatchObject([{ state: 'online' }]);
  }
  expect(await client.stores.list()).toMatchObject([{ state: 'offline', failure: { retryable: true } }]);
  expect(store.pid).toBeNull();
  await until(async () => (await client.stores.list())[0]?.state === 'online');
});

test('nothing that a store holds reaches the activity of a desk that is well', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const client = desk.inProcess();
  const root = await scene.store();
  await client.stores.open({ root });
  await client.domain.inventory({ root });
  const pid = processOf(desk, root);
  const inherited = readdirSync(`/proc/${pid}/fd`).length;
  // Three pipes, the runtime's own, the directories under watch.
  expect(inherited).toBeLessThan(40);
  await desk.close();
  const { entries } = desk.workstation.activity.newest(100);
  expect(entries.filter(({ kind }) => kind === 'bug')).toEqual([]);
});
