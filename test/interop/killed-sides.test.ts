/** What dies on our side must be nothing to theirs: the kernel frees its locks, and its leavings are cleared. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { identityOf, KiB, startProcess, temporaryFolder, type StoreProcess } from '../fixtures/store.ts';
import { PythonSide } from './python-side.ts';

const identity = identityOf('ours');
const { canonical: text, key } = identity;
/** What their producer makes of the same identity; after a killed build of ours nothing is there to compare. */
const production = { tensors: [{ name: 'w', shape: [4], dtype: 'uint8' }] };

let root: string;
let ours: StoreProcess;
let python: PythonSide;

beforeEach(async () => {
  root = join(temporaryFolder(), 'store');
  ours = await startProcess();
  await ours.do('create', { root });
  python = await PythonSide.start();
});

afterEach(async () => {
  await python.close();
});

test('a lease of ours makes their cleanup refuse, until our process is killed', async () => {
  const { store } = await python.open({ root });
  await ours.build({ label: 'ours', bytes: 16 * KiB, hold: true }).result;
  expect(await python.cleanup(store, text)).toMatchObject({ code: 'active_lease', retryable: true });
  expect((await python.lookup(store, text, { validation: 'full_checksum' })).status).toBe('hit');
  await ours.kill();
  expect(await python.cleanup(store, text)).toBeNull();
  expect(readdirSync(join(root, 'artifacts'))).toEqual([]);
});

test('a build lock of ours makes them wait, until our process is killed', async () => {
  const { store } = await python.open({ root });
  await ours.do('lock', { name: `${key}.build.lock` });
  expect(await python.build(store, text, { ...production, timeoutSeconds: 0.2 })).toMatchObject({
    status: 'timeout',
    failure: { code: 'active_build_timeout' },
  });
  const waiting = python.build(store, text, production);
  await ours.kill();
  expect((await waiting).status).toBe('built');
});

test('a producer of ours that is killed leaves what they clear away and build', async () => {
  const { store } = await python.open({ root });
  const building = ours.build({ label: 'ours', bytes: 64 * KiB, pause: 'midway' });
  await building.inside;
  await ours.kill();
  expect(readdirSync(join(root, 'tmp'))).toHaveLength(1);
  expect((await python.build(store, text, production)).status).toBe('built');
  expect(readdirSync(join(root, 'tmp'))).toEqual([]);
});
