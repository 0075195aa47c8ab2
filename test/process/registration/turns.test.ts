/** Several registrars at one file: in turns, and what happens where they were told not to take turns (R3). */
import { expect, onTestFinished, test } from 'vitest';
import { RegistrationScene, until, type RunningCommand } from './scene.ts';

/** Fails as drivers do where two processes are inside at once. */
const contended = { latency_ms: 1000, register: [{ do: 'fail', code: 2, exclusive: true }] };
const patient = ['--chunk', '2MiB', '--stall-after', '300s'];

/** Stops a registrar in the middle of a call; returns what lets it go on. */
async function stoppedInside(scene: RegistrationScene, running: RunningCommand): Promise<() => void> {
  const pid = await running.registrar();
  await until(() => scene.addresses('cuMemHostRegister').length > 0);
  process.kill(pid, 'SIGSTOP');
  let goesOn = false;
  const goOn = (): void => {
    if (!goesOn) process.kill(pid, 'SIGCONT');
    goesOn = true;
  };
  onTestFinished(goOn);
  return goOn;
}

test('in turns, the second waits, names the first, and nobody fails', async () => {
  const scene = await RegistrationScene.make(contended);
  const first = scene.startRegister(0, ...patient);
  const goOn = await stoppedInside(scene, first);
  const second = scene.startRegister(1, ...patient);
  const waiting = await second.until(({ event }) => event === 'waiting');
  expect(waiting['holders']).toMatchObject([{ pid: await first.registrar() }]);
  goOn();
  for (const { code, last } of await Promise.all([first.ended, second.ended])) {
    expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'registered' });
  }
});

test('in parallel, a failure that contention explains is repeated once, alone and in a fresh process', async () => {
  const scene = await RegistrationScene.make(contended);
  const first = scene.startRegister(0, '--parallel', ...patient);
  const goOn = await stoppedInside(scene, first);
  const second = scene.startRegister(1, '--parallel', ...patient);
  await second.until(({ event }) => event === 'waiting');
  goOn();
  const runs = await Promise.all([first.ended, second.ended]);
  for (const { code, last } of runs) {
    expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'registered' });
  }
  const registrars = runs.map(({ documents }) => documents.filter(({ event }) => event === 'started').length);
  expect(registrars).toEqual([1, 2]);
  expect(await scene.scenario.heldLocks()).toEqual([]);
});
