/** Several registrars at one file: in turns, and what happens where they were told not to take turns (R3). */
import { expect, test } from 'vitest';
import { RegistrationScene } from './scene.ts';

/** Fails as drivers do where two processes are inside at once. */
const contended = { latency_ms: 200, register: [{ do: 'fail', code: 2, exclusive: true }] };

test('in turns, the second waits, names the first, and nobody fails', async () => {
  const scene = await RegistrationScene.make(contended);
  const first = scene.startRegister(0);
  await first.until(({ event }) => event === 'entering');
  const second = scene.startRegister(1);
  const waiting = await second.until(({ event }) => event === 'waiting');
  expect(waiting['holders']).toMatchObject([{ pid: await first.registrar() }]);
  for (const { code, last } of await Promise.all([first.ended, second.ended])) {
    expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'registered' });
  }
});

test('in parallel, a failure that contention explains is repeated once, alone and in a fresh process', async () => {
  const scene = await RegistrationScene.make(contended);
  const first = scene.startRegister(0, '--parallel');
  await first.until(({ event }) => event === 'entering');
  const second = scene.startRegister(1, '--parallel');
  const runs = await Promise.all([first.ended, second.ended]);
  for (const { code, last } of runs) {
    expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'registered' });
  }
  const registrars = runs.map(({ documents }) => documents.filter(({ event }) => event === 'started').length);
  expect(Math.max(...registrars)).toBe(2);
  expect(await scene.scenario.heldLocks()).toEqual([]);
});
