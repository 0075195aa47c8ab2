/** Calls that never return: told with their place, ended without harm to others, and never asked after twice. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Settings } from '../../../src/contract/app-schemas.ts';
import { defaultPaths } from '../../../src/host/default-paths.ts';
import { GpuRegistry } from '../../../src/host/gpu-registry.ts';
import { startRegistration } from '../../../src/host/registering.ts';
import type { SessionOptions } from '../../../src/registration/registration-session.ts';
import { processOf } from '../../../src/registration/run-record.ts';
import { isThere, RegistrationScene, until } from './scene.ts';

const wait = ['--stall-after', '500ms', '--on-stall', 'wait'];

test('region 3 of 13 on GPU 2 of 4 hangs: the others go on, and ending it frees everything (R1)', async () => {
  const scene = await RegistrationScene.make({
    files: 13,
    register: [{ device: 2, call: 3, do: 'hang' }],
  });
  const stuck = scene.startRegister(2, '--parallel', ...wait);
  await stuck.untilStalledIn(3);
  const others = await Promise.all([0, 1, 3].map(async (gpu) => await scene.register(gpu, '--parallel')));
  for (const { code, last } of others) {
    expect({ code, state: last['state'], regions: last['regions'] }).toEqual({
      code: 0,
      state: 'registered',
      regions: 13,
    });
  }
  stuck.kill('SIGINT');
  const { last } = await stuck.ended;
  const entered = scene.calls().filter(({ call, device }) => call === 'cuMemHostRegister' && device === 2);
  expect(entered).toHaveLength(3);
  expect(last['last_entered']).toMatchObject({
    call: 'register',
    file: 'weights-00003.safetensors',
    region: 3,
    regions: 13,
    chunk: 1,
    chunks: 1,
    bytes: entered[2]?.bytes,
  });
  expect(await scene.scenario.heldLocks()).toEqual([]);
});

test('whoever waits for a file behind a stuck registrar gets its turn when that is ended (R1)', async () => {
  const scene = await RegistrationScene.make({
    files: 13,
    register: [{ device: 2, call: 3, do: 'hang' }],
  });
  const stuck = scene.startRegister(2, ...wait);
  await stuck.untilStalledIn(3);
  const behind = scene.startRegister(0, ...wait);
  const waiting = await behind.until(({ event }) => event === 'waiting');
  expect(waiting).toMatchObject({
    file: 'weights-00003.safetensors',
    holders: [{ pid: await stuck.registrar() }],
  });
  stuck.kill('SIGINT');
  await stuck.ended;
  expect(await behind.ended).toMatchObject({ code: 0, last: { state: 'registered' } });
  expect(await scene.scenario.heldLocks()).toEqual([]);
});

test('a registrar that is deaf to SIGTERM is killed with --force (R9)', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang-ignoring-sigterm' }] });
  const running = scene.startRegister(0, '--stall-after', '5s', '--force');
  const pid = await running.registrar();
  const { code, last } = await running.ended;
  expect({ code, state: last['state'], released: last['lease_released'] }).toEqual({
    code: 3,
    state: 'abandoned',
    released: true,
  });
  expect(last['last_entered']).toMatchObject({ chunk: 2 });
  expect(isThere(pid)).toBe(false);
  expect(await scene.scenario.heldLocks()).toEqual([]);
});

test('without --force it is said that the lease is still held', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang-ignoring-sigterm' }] });
  const { code, last } = await scene.register(0, '--stall-after', '5s');
  expect({ code, state: last['state'], released: last['lease_released'] }).toEqual({
    code: 4,
    state: 'stalled',
    released: false,
  });
});

test.each(['hang', 'hang-ignoring-sigterm', 'hang-uninterruptible'])(
  'the death of the program ends a registrar in "%s" and frees its lease',
  async (action) => {
    const scene = await RegistrationScene.make({ register: [{ call: 2, do: action }] });
    const running = scene.startRegister(0, ...wait);
    const pid = await running.registrar();
    await running.untilStalledIn(2);
    expect(await scene.scenario.heldLocks()).not.toEqual([]);
    running.kill('SIGKILL');
    await until(() => !isThere(pid));
    await until(async () => (await scene.scenario.heldLocks()).length === 0);
  },
);

test('a process that survives SIGKILL is unkillable, and its lease is not said to be free (R8)', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang-ignoring-sigterm' }] });
  const gpus = await registryOf(scene);
  const [gpu] = (await gpus.list()).gpus;
  if (gpu === undefined) throw new Error('no GPU');
  const stalled = Promise.withResolvers<void>();
  const options: SessionOptions = {
    stallAfterMs: 300,
    terminateAfterMs: 100,
    killAfterMs: 100,
    kill: (child, signal) => void (signal === 'SIGKILL' || child.kill(signal)),
    onEvent: (event) => {
      if (event.event !== 'view' || event.view.lastEntered?.chunk !== 2) return;
      if (event.view.state === 'stalled') stalled.resolve();
    },
  };
  const wish = { root: scene.scenario.root, key: scene.key, gpu, chunkBytes: 1024 ** 2, parallel: false };
  const started = startRegistration(gpus, wish, options);
  if (!started.ok || started.value.kind !== 'running') throw new Error('it did not start');
  const { session } = started.value;
  onTestFinished(() => void process.kill(session.view.pid ?? 0, 'SIGKILL'));
  await stalled.promise;
  expect(await session.end({ force: true })).toBe(false);
  expect(session.view).toMatchObject({
    state: 'unkillable',
    gone: false,
    leaseReleased: false,
    ignoredTermination: true,
  });
  const again = startRegistration(gpus, wish, options);
  expect(again).toMatchObject({ ok: false, failure: { details: { pid: session.view.pid } } });
});

test('a GPU whose probe is stuck is not asked again, and the others are listed (R7)', async () => {
  const scene = await RegistrationScene.make();
  await scene.weightroom('gpu', 'list');
  scene.configure({ init: [{ device: 2, do: 'hang-ignoring-sigterm' }] });
  const gpus = await registryOf(scene, 6000);
  const probes = (): number => scene.addresses('cuInit').length;
  const first = await gpus.list();
  const stuck = gpus.runs.list().flatMap((record) => processOf(record) ?? []);
  for (const { pid } of stuck) onTestFinished(() => void process.kill(pid, 'SIGKILL'));
  expect(stuck).toHaveLength(1);
  const before = probes();
  const second = await gpus.list({ rescan: true });
  for (const { gpus: listed, failure } of [first, second]) {
    expect(listed.map(({ asked }) => asked)).toEqual([true, true, false, true]);
    expect(failure).toMatchObject({ retryable: true, details: { reason: 'probe_stuck' } });
  }
  expect(probes() - before).toBe(3);
});

test('a stuck registration is diagnosed by its session and by its process, and bundled', async () => {
  const scene = await RegistrationScene.make({ register: [{ call: 2, do: 'hang-uninterruptible' }] });
  const running = scene.startRegister(0, ...wait);
  const pid = await running.registrar();
  await running.untilStalledIn(2);
  const session = String(running.documents[0]?.['session']);
  expect(session).not.toBe('null');
  const path = join(scene.folder, 'bundle.tar.gz');
  const bySession = await scene.weightroom('diagnose', '--session', session, '--bundle', path);
  const byProcess = await scene.weightroom('diagnose', '--pid', String(pid));
  for (const { code, last } of [bySession, byProcess]) {
    expect(code).toBe(0);
    expect(last['findings']).toEqual([expect.objectContaining({ rule: 'driver-stuck' })]);
  }
  const names = spawnSync('tar', ['-tzf', path], { encoding: 'utf8' }).stdout;
  expect(names).toMatch(/\.json\n/);
  expect(names).toMatch(/\.md\n/);
  const content = spawnSync('tar', ['-xzOf', path], { encoding: 'utf8' }).stdout;
  expect(content).toContain('driver-stuck');
  expect(content).not.toContain(scene.folder);
  expect(readFileSync(path).length).toBeGreaterThan(100);
});

test('what is not there cannot be diagnosed', async () => {
  const scene = await RegistrationScene.make();
  for (const words of [['--session', 'nobody'], ['--pid', '4194303'], []]) {
    expect((await scene.weightroom('diagnose', ...words)).code).toBe(2);
  }
});

/** The registry of a program that is this very process. */
async function registryOf(scene: RegistrationScene, deadlineMs = 10_000): Promise<GpuRegistry> {
  for (const [name, value] of Object.entries(scene.env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const settings = {
    current: {} as Settings,
    update: () => Promise.reject(new Error('nothing is set here')),
  };
  const gpus = new GpuRegistry({
    settings,
    paths: defaultPaths(scene.env),
    library: scene.library,
    deadlineMs,
  });
  await gpus.remembered();
  return gpus;
}
