/** Registrations through the command line, against the imitation of a driver: every way in which one can end. */
import { expect, test } from 'vitest';
import { RegistrationScene } from './scene.ts';

test('all pages are registered call by call, given back last first, and the lease is free', async () => {
  const scene = await RegistrationScene.make();
  const { code, last, documents } = await scene.register(1);
  expect({ code, state: last['state'], simulated: last['simulated'] }).toEqual({
    code: 0,
    state: 'registered',
    simulated: true,
  });
  const registered = scene.addresses('cuMemHostRegister');
  expect(registered).toHaveLength(last['chunks'] as number);
  expect(scene.addresses('cuMemHostUnregister')).toEqual(registered.toReversed());
  const names = documents.map(({ event, call }) => `${String(event)} ${String(call)}`);
  expect(names.indexOf('entering register')).toBeLessThan(names.indexOf('returned register'));
  expect(await scene.scenario.heldLocks()).toEqual([]);
});

test.each([2, 4])('a failure at call %i gives back exactly what was registered, last first', async (call) => {
  const scene = await RegistrationScene.make({ register: [{ call, do: 'fail', code: 2 }] });
  const { code, last } = await scene.register(0);
  expect({ code, state: last['state'], released: last['lease_released'] }).toEqual({
    code: 3,
    state: 'failed',
    released: true,
  });
  const registered = scene.addresses('cuMemHostRegister').slice(0, call - 1);
  expect(scene.addresses('cuMemHostUnregister')).toEqual(registered.toReversed());
});

test('a rollback that fails keeps the lease and says so', async () => {
  const scene = await RegistrationScene.make({
    register: [{ call: 3, do: 'fail', code: 999 }],
    unregister: [{ do: 'fail', code: 999 }],
  });
  const { code, last } = await scene.register(0);
  expect({ code, state: last['state'], released: last['lease_released'] }).toEqual({
    code: 3,
    state: 'failed',
    released: false,
  });
  expect(last['reason']).toMatchObject({ kind: 'rollback_failed' });
});

test('a GPU without read-only support is staged without a register call (R4)', async () => {
  const scene = await RegistrationScene.make({ readOnlyRegister: false });
  const { code, last } = await scene.register(0);
  expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'staging' });
  expect(scene.addresses('cuMemHostRegister')).toEqual([]);
});

test.each([800, 801])('a platform that forbids it (%i) is asked once and remembered (R6)', async (code) => {
  const scene = await RegistrationScene.make({ register: [{ do: 'fail', code }] });
  const first = await scene.register(0);
  const second = await scene.register(0);
  expect([first.last['state'], second.last['state']]).toEqual(['staging', 'staging']);
  expect(scene.addresses('cuMemHostRegister')).toHaveLength(1);
});

test('a latched failure is drained: nothing else takes the blame (R5)', async () => {
  const scene = await RegistrationScene.make({
    register: [{ call: 3, do: 'fail', code: 712, latch: true }],
  });
  const { last } = await scene.register(0);
  expect(last).toMatchObject({
    state: 'failed',
    reason: { kind: 'already_registered' },
    lease_released: true,
  });
  expect(scene.addresses('cuMemHostUnregister')).toHaveLength(2);
});

test('over budget there is no call into the driver', async () => {
  const scene = await RegistrationScene.make();
  await scene.weightroom('gpu', 'mode', '0', 'auto', '--limit', '1MiB');
  const before = scene.calls().length;
  const { last } = await scene.register(0);
  expect(last).toMatchObject({ state: 'staging', reason: { kind: 'over_budget' } });
  expect(scene.calls()).toHaveLength(before);
});

test('disabled makes no CUDA call, also when the GPUs are listed', async () => {
  const scene = await RegistrationScene.make();
  await scene.weightroom('gpu', 'mode', '2', 'disabled');
  const before = scene.calls().length;
  const { code, last } = await scene.register(2);
  expect({ code, state: last['state'] }).toEqual({ code: 0, state: 'staging' });
  expect(scene.calls()).toHaveLength(before);
  const { last: listing } = await scene.weightroom('gpu', 'list');
  expect((listing['gpus'] as unknown[]).length).toBe(4);
  expect(
    scene
      .calls()
      .slice(before)
      .some(({ device }) => device === 2),
  ).toBe(false);
});

test('without a driver it is said what was looked for', async () => {
  const scene = await RegistrationScene.make();
  const { code, last } = await scene.weightroom('gpu', 'list', '--cuda-library', '/nowhere/libcuda.so.1');
  expect(code).toBe(3);
  expect(last['failure']).toMatchObject({ details: { tried: [{ name: '/nowhere/libcuda.so.1' }] } });
});

test('the flags are the strictest of the GPUs, and a remark says where they differ', async () => {
  const scene = await RegistrationScene.make();
  await scene.weightroom('gpu', 'mode', '0', 'auto', '--limit', '80GiB');
  const limited = await scene.weightroom('gpu', 'flags', '0', '1');
  expect(limited.last['flags']).toEqual(
    expect.arrayContaining([
      '--dlo-host-registration-mode',
      'auto',
      '--dlo-host-registration-limit-gib',
      '80',
    ]),
  );
  expect(limited.last['remarks']).not.toEqual([]);
  await scene.weightroom('gpu', 'mode', '1', 'disabled');
  const { last } = await scene.weightroom('gpu', 'flags');
  expect(last['flags']).toEqual(expect.arrayContaining(['--dlo-host-registration-mode', 'disabled']));
});
