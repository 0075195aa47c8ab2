/** GPUs and registrations through the contract, as a page has them, against the imitation of a driver. */
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRouterClient } from '@orpc/server';
import { expect, onTestFinished, test, vi } from 'vitest';
import { failureOf } from '../../../src/contract/call-failure.ts';
import type { DeskClient } from '../../../src/contract/contract.ts';
import type { Registration, RegistrationEvent } from '../../../src/contract/gpu-schemas.ts';
import { deskRouter } from '../../../src/host/desk-router.ts';
import { Workstation } from '../../../src/host/workstation.ts';
import { isThere, RegistrationScene } from './scene.ts';

const never = 2 ** 31 - 1;

async function deskOf(scene: RegistrationScene): Promise<DeskClient> {
  for (const [name, value] of Object.entries(scene.env)) vi.stubEnv(name, value);
  const workstation = await Workstation.open({ env: scene.env, pollMs: never });
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await workstation.close();
  });
  const client: DeskClient = createRouterClient(deskRouter(workstation), {
    context: { transport: 'in-process' },
  });
  await client.settings.update({ cudaLibrary: scene.library });
  await client.stores.open({ root: scene.scenario.root });
  return client;
}

/** Reads until the registration is as `isMeant` says. */
async function watched(
  client: DeskClient,
  id: string,
  isMeant: (registration: Registration) => boolean,
): Promise<{ registration: Registration; events: RegistrationEvent[] }> {
  const events: RegistrationEvent[] = [];
  for await (const event of await client.registrations.watch({ id })) {
    events.push(event);
    if (event.type === 'state' && isMeant(event.registration))
      return { registration: event.registration, events };
  }
  throw new Error(`it ended as ${JSON.stringify(events.at(-1))}`);
}

test('one of four GPUs hangs at region 3 of 13: the others register, and ending it frees its lease (R1)', async () => {
  const scene = await RegistrationScene.make({
    files: 13,
    register: [{ device: 2, call: 3, do: 'hang' }],
  });
  const client = await deskOf(scene);
  const listing = await client.gpus.list({});
  expect(listing).toMatchObject({ simulated: true, failure: null });
  const wish = { root: scene.scenario.root, key: scene.key, parallel: true, stallAfterMs: 500 };
  const started = await Promise.all(
    listing.gpus.map(async ({ uuid }) => await client.registrations.start({ ...wish, gpu: uuid })),
  );
  const seen = await Promise.all(
    started.map(
      async ({ id }, gpu) =>
        await watched(client, id, ({ state, lastEntered, diagnosis }) =>
          gpu === 2
            ? state === 'stalled' && lastEntered?.region === 3 && diagnosis.length > 0
            : state === 'registered',
        ),
    ),
  );
  expect(seen[2]?.registration).toMatchObject({
    simulated: true,
    registeredChunks: 2,
    lastEntered: { region: 3, regions: 13, chunk: 1, chunks: 1, seconds: null },
    diagnosis: [{ rule: 'unknown' }],
  });
  expect(seen[0]?.registration).toMatchObject({ registeredChunks: 13, chunks: 13 });
  const pids = seen.map(({ registration }) => registration.pid ?? 0);
  for (const { id } of started) expect(await client.registrations.end({ id })).toEqual({ gone: true });
  expect(pids.some((pid) => isThere(pid))).toBe(false);
  expect(await scene.scenario.heldLocks()).toEqual([]);
  const { registrations } = await client.registrations.list();
  expect(registrations.map(({ gone, leaseReleased }) => gone && leaseReleased)).toEqual(
    Array.from({ length: 4 }, () => true),
  );
});

test('ending one that is deaf to SIGTERM is refused until it is forced, and can switch the GPU off (R9)', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang-ignoring-sigterm' }] });
  const client = await deskOf(scene);
  const gpu = scene.uuid(0);
  const wish = { root: scene.scenario.root, key: scene.key, gpu, chunkBytes: 1024 ** 2 };
  const { id } = await client.registrations.start({ ...wish, stallAfterMs: 500 });
  await watched(client, id, ({ state, lastEntered }) => state === 'stalled' && lastEntered?.chunk === 2);
  expect(await client.registrations.end({ id })).toEqual({ gone: false });
  const { registrations } = await client.registrations.list();
  expect(registrations).toMatchObject([{ id, ignoredTermination: true, gone: false, leaseReleased: false }]);
  const path = join(scene.folder, 'bundle.tar.gz');
  await client.registrations.bundle({ id, path });
  expect(existsSync(path)).toBe(true);
  const again = await client.registrations.start(wish).catch((error: unknown) => failureOf(error));
  expect(again).toMatchObject({ retryable: true, details: { reason: 'probe_stuck' } });
  expect(await client.registrations.end({ id, force: true, disable: true })).toEqual({ gone: true });
  expect(await scene.scenario.heldLocks()).toEqual([]);
  const before = scene.calls().length;
  const staged = await client.registrations.start(wish);
  const events: RegistrationEvent[] = [];
  for await (const event of await client.registrations.watch(staged)) events.push(event);
  expect(events.at(-1)).toMatchObject({ registration: { state: 'staging', reason: { kind: 'disabled' } } });
  expect(scene.calls()).toHaveLength(before);
  expect((await client.gpus.flags({ uuids: [gpu] })).flags).toContain(
    '--dlo-host-registration-mode disabled',
  );
});

test('what another program registers is on the list too', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang' }] });
  const client = await deskOf(scene);
  const other = scene.startRegister(1, '--stall-after', '500ms', '--on-stall', 'wait');
  await other.untilStalledIn(2);
  const { registrations } = await client.registrations.list();
  expect(registrations).toMatchObject([
    { gpu: scene.uuid(1), pid: await other.registrar(), state: 'stalled', lastEntered: { chunk: 2 } },
  ]);
  other.kill('SIGINT');
  await other.ended;
  expect(await client.registrations.list()).toEqual({ registrations: [] });
});

test('workers of others are found by their command lines, without what is secret in them', async () => {
  const scene = await RegistrationScene.make();
  const client = await deskOf(scene);
  const script = 'console.log(0); setInterval(() => {}, 1000)';
  const worker = spawn(process.execPath, ['-e', script, 'vllm_omni.worker', '--api-key', 'planted-secret'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void worker.kill('SIGKILL'));
  await new Promise((resolve) => worker.stdout.once('data', resolve));
  const { workers } = await client.workers.list();
  const found = workers.find(({ pid }) => pid === worker.pid);
  expect(found).toMatchObject({ foundBy: ['command'], leases: [] });
  expect(found?.command).toContain('vllm_omni.worker');
  expect(JSON.stringify(workers)).not.toContain('planted-secret');
});

test("a worker's log is followed", async () => {
  const scene = await RegistrationScene.make();
  const client = await deskOf(scene);
  const path = join(scene.folder, 'vllm.log');
  const line = (region: number): string =>
    `(Worker pid=4194301) INFO Registering HWR host range ${region}/13: 4096 bytes\n`;
  writeFileSync(path, line(1));
  const regions: (number | undefined)[] = [];
  for await (const { workers } of await client.workers.followLog({ path })) {
    regions.push(workers[0]?.lastEntered?.region);
    if (regions.length === 1) appendFileSync(path, line(2));
    else break;
  }
  expect(regions).toEqual([1, 2]);
});
