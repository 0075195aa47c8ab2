/** What other processes do to a store shows by itself. */
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { DomainChange } from '../../../src/contract/domain-schemas.ts';
import { startBuild } from '../../../src/production/build-supervisor.ts';
import { cleanup } from '../../../src/store/cleanup.ts';
import { openDomain } from '../../../src/store/domain.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { store } from '../../fixtures/store.ts';
import { DeskScene } from './desk-scene.ts';

/** Reads changes until the inventory is as expected: there may be looks at what is half-way there. */
async function untilChanged(
  changes: AsyncIterator<DomainChange, unknown, void>,
  isThere: (change: DomainChange) => Promise<boolean>,
): Promise<void> {
  for (;;) {
    const { done, value } = await changes.next();
    if (done === true) throw new Error('the stream ended');
    if (await isThere(value)) return;
  }
}

test('an artifact that another process publishes and one that is removed, told by the kernel alone', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const { client } = await desk.socket();
  const root = await scene.store();
  await client.stores.open({ root });
  const changes = (await client.domain.watch({ root }))[Symbol.asyncIterator]();
  const first = await changes.next();
  expect(first.value).toMatchObject({ online: true });

  const { path: checkpoint } = scene.checkpoint();
  const request = { checkpoint, domain: root, representation: 'preserve' } as const;
  const { key } = await startBuild(request).result;
  await untilChanged(changes, async () => {
    const { rows } = await client.domain.inventory({ root, states: ['ready'] });
    return rows.length === 1 && rows[0]?.key === key && rows[0].model === 'tiny';
  });

  const domain = await openDomain(root);
  if (!domain.ok) throw new Error(domain.failure.message);
  await cleanup(domain.value, key ?? '');
  await untilChanged(changes, async () => (await client.domain.inventory({ root })).total === 0);
});

test('a root that goes away is offline with its reason, and online when it is back', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk({ pollMs: 50 });
  const client = desk.inProcess();
  const root = await scene.store();
  await client.stores.open({ root });
  const changes = (await client.domain.watch({ root }))[Symbol.asyncIterator]();
  await changes.next();

  renameSync(root, `${root}.away`);
  await untilChanged(changes, async ({ online }) => !online);
  expect(await client.stores.list()).toMatchObject([
    { state: 'offline', root, failure: { code: 'domain_unavailable', retryable: true } },
  ]);
  await expect(client.domain.inventory({ root })).rejects.toMatchObject({ code: 'FAILURE' });

  mkdirSync(root);
  await untilChanged(changes, async () => (await client.stores.list())[0]?.state === 'offline');
  renameSync(root, `${root}.other`);
  renameSync(`${root}.away`, root);
  await untilChanged(changes, async ({ online }) => online);
  expect(await client.stores.list()).toMatchObject([{ state: 'online', root }]);
});

test('states, reasons and identities of a store in every state; sums that account for every byte', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const made = await store({ root: scene.path('store') })
    .artifact('kept')
    .artifact('bad')
    .quarantined('validation_failure')
    .artifact('barred')
    .denied()
    .made();
  const client = desk.inProcess();
  const opened = await client.stores.open({ root: made.root });
  if (opened.state !== 'online') throw new Error('offline');
  const { ready, unserved, denied, quarantined, building, leftover, other } = opened.usage;
  expect([ready, unserved, denied, quarantined].map(({ entries }) => entries)).toEqual([1, 1, 1, 1]);
  const sum = [ready, unserved, denied, quarantined, building, leftover, other].reduce(
    (total, { bytes }) => total + bytes,
    0,
  );
  expect(sum).toBe(await made.storeBytes());
  const { rows } = await client.domain.inventory({ root: made.root });
  const labels = new Map(['kept', 'bad', 'barred'].map((label) => [made.key(label), `test/${label}`]));
  for (const { key, model, problem } of rows) {
    expect({ model, problem }).toEqual({ model: labels.get(key), problem: null });
  }
  expect(rows.filter(({ served }) => served).map(({ key }) => key)).toEqual([made.key('kept')]);
  expect(rows.find(({ state }) => state === 'quarantined')?.reason).toBe('validation_failure');
});

test('who holds which lock, and a build of another process', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const made = await store({ root: scene.path('store'), admission: 'serialized', maxStoreBytes: 2 ** 30 })
    .artifact('kept')
    .made();
  const { root } = made;
  const client = desk.inProcess();
  await client.stores.open({ root });
  const admission = await FileLock.exclusive(join(root, 'locks', 'domain-build.lock'), withoutWaiting);
  const { held } = await client.domain.locks({ root });
  expect(held).toMatchObject([{ purpose: 'admission', holders: [{ pid: process.pid, buildId: null }] }]);
  desk.workstation.stores.get(root).touch();
  expect((await client.builds.list()).elsewhere).toMatchObject([
    { root, pid: process.pid, holdsAdmission: true, key: null },
  ]);
  const again = await client.domain.locks({ root });
  expect(again.held[0]?.holders[0]?.seenSinceMs).toBe(held[0]?.holders[0]?.seenSinceMs);
  admission.release();
  expect((await client.domain.locks({ root })).held).toEqual([]);
});
