/** A client that goes away stops what it owns and nothing else. */
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { VerificationEvent } from '../../../src/contract/artifact-schemas.ts';
import type { BuildEvent } from '../../../src/contract/build-schemas.ts';
import { lockStates } from '../../../src/store/lock-holders.ts';
import { isRunning, largeBytes } from '../production/domain-fixture.ts';
import { DeskScene, readUntil } from './desk-scene.ts';

async function isHeld(root: string, purpose: 'artifact' | 'build'): Promise<boolean> {
  return (await lockStates(root)).some((lock) => lock.purpose === purpose && lock.state === 'held');
}

async function untilFree(root: string): Promise<void> {
  while (await isHeld(root, 'artifact')) await new Promise((resolve) => setTimeout(resolve, 20));
}

test('a build goes on when its page is gone; a verification ends with its caller, over every transport', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const root = await scene.store();
  const { path: checkpoint } = scene
    .checkpoint('large')
    .sparse('model.safetensors', 'weight', 'BF16', largeBytes / 2);

  const page = await desk.socket();
  await page.client.stores.open({ root });
  const { id } = await page.client.builds.start({ root, checkpoint });
  const moving = (event: BuildEvent): boolean => event.type === 'progress' && event.progress.doneBytes > 0;
  await readUntil(await page.client.builds.watch({ id }), moving);
  page.socket.terminate();

  const later = await desk.socket();
  const watched = await readUntil(await later.client.builds.watch({ id }));
  expect(watched[0]).toMatchObject({ type: 'state', build: { id } });
  const end = watched.at(-1);
  expect(end).toMatchObject({ type: 'result', build: { result: { status: 'built', leftBehind: [] } } });
  const key = (end?.type === 'result' ? end.build.result?.key : null) ?? '';

  const port = desk.port();
  for (const { client, leave } of [
    { client: later.client, leave: () => later.socket.terminate() },
    { client: port.client, leave: () => port.port.close() },
  ]) {
    const events = (await client.artifact.verify({ root, key }))[Symbol.asyncIterator]();
    for (;;) {
      const { value } = (await events.next()) as IteratorYieldResult<VerificationEvent>;
      if (value.type === 'progress' && value.doneBytes > 0) break;
    }
    expect(await isHeld(root, 'artifact')).toBe(true);
    leave();
    await untilFree(root);
  }
  // In process there is no connection to lose: leaving the stream is what a caller does.
  const hashing = await desk.inProcess().artifact.verify({ root, key });
  await readUntil(hashing, (event) => event.type === 'progress' && event.doneBytes > 0);
  await untilFree(root);

  const client = desk.inProcess();
  const { entries } = await client.activity.list();
  expect(entries.filter(({ kind }) => kind === 'artifact-verified')).toEqual([]);
  expect((await client.domain.inventory({ root })).rows).toMatchObject([{ key, lastVerified: null }]);
});

test('cancelling stops the build process and leaves nothing', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const root = await scene.store();
  const { path: checkpoint } = scene
    .checkpoint('large')
    .sparse('model.safetensors', 'weight', 'BF16', largeBytes / 2);
  const { client } = desk.port();
  await client.stores.open({ root });
  const { id } = await client.builds.start({ root, checkpoint });
  let pid = 0;
  for await (const event of await client.builds.watch({ id })) {
    if (event.type === 'state') pid = event.build.pid ?? 0;
    if (event.type === 'progress' && event.progress.doneBytes > 0) await client.builds.cancel({ id });
    if (event.type !== 'result') continue;
    expect(event.build).toMatchObject({ cancelling: true, result: { status: 'cancelled', leftBehind: [] } });
  }
  expect(pid).toBeGreaterThan(0);
  expect(isRunning(pid)).toBe(false);
});

test('closing the desk cancels its builds and waits until they are gone', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const root = await scene.store();
  const { path: checkpoint } = scene
    .checkpoint('large')
    .sparse('model.safetensors', 'weight', 'BF16', largeBytes / 2);
  const client = desk.inProcess();
  await client.stores.open({ root });
  const { id } = await client.builds.start({ root, checkpoint });
  const events = await client.builds.watch({ id });
  await readUntil(events, (event) => event.type === 'progress' && event.progress.doneBytes > 0);
  const [build] = (await client.builds.list()).builds;
  expect(isRunning(build?.pid ?? 0)).toBe(true);
  await desk.close();
  expect(isRunning(build?.pid ?? 0)).toBe(false);
  expect(await isHeld(root, 'build')).toBe(false);
  expect(existsSync(scene.settingsPath)).toBe(true);
});

test('of events that nobody reads only what still counts is kept', async () => {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const events = desk.workstation.events(undefined);
  const { client } = desk.port();
  for (let index = 0; index < 21; index += 1) {
    await client.settings.update({ theme: index % 2 === 0 ? 'dark' : 'light' });
  }
  const read = await readUntil(events, ({ type }) => type === 'settings');
  expect(read.filter(({ type }) => type === 'settings')).toMatchObject([{ settings: { theme: 'dark' } }]);
  expect(desk.workstation.settings.changed.listeners).toBe(1);
  expect(await events.next()).toEqual({ done: true, value: undefined });
});
