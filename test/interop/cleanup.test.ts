/** What the published package uses or builds is not cleaned away, and what is restored is a hit for it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { restoreQuarantined } from '../../src/store/restore.ts';
import { applied, planOf } from '../fixtures/cleanup.ts';
import { runCleanupInterleavings } from '../fixtures/cleanup-interleavings.ts';
import { bodyOf, identityOf, KiB, store, valueOf } from '../fixtures/store.ts';
import { PythonReader } from './python-reader.ts';
import { PythonSide } from './python-side.ts';
import { createHash } from 'node:crypto';

const content = { bytes: 64 * KiB, seed: 5 };
const identity = identityOf('a');

let python: PythonSide;

beforeEach(async () => {
  python = await PythonSide.start();
});

afterEach(async () => {
  await python.close();
});

test('a lease of theirs keeps its artifact and reads the same bytes; when they are gone it goes', async () => {
  const scenario = await store().artifact('a', content).artifact('a-old').made();
  const { store: theirs } = await python.open({ root: scenario.root });
  const chosen = [`artifacts/${identity.key}`];
  const early = await planOf(scenario, { groups: [], chosen });
  const { lease } = await python.lookup(theirs, identity.canonical, { keepLease: true });
  expect(lease).not.toBeNull();
  expect((await planOf(scenario, { groups: [], chosen })).kept).toMatchObject([
    { because: 'leased', holders: [{ pid: python.pid }] },
  ]);
  const { results } = await applied(early);
  expect(results).toMatchObject([{ status: 'in-use', failure: { code: 'active_lease' } }]);
  expect(results[0]?.failure?.message).toContain(`process ${python.pid} (`);
  const read = await python.readLease(lease as string);
  expect(read.tensors?.find(({ name }) => name === 'body')?.sha256).toBe(
    createHash('sha256').update(bodyOf(content)).digest('hex'),
  );
  await python.kill();
  expect((await applied(await planOf(scenario, { groups: [], chosen }))).results).toMatchObject([
    { status: 'removed' },
  ]);
  expect(scenario.names('artifacts')).toEqual([scenario.key('a-old')]);
});

test('a build of theirs stays while it lives, whatever its name says; killed, its leftovers go', async () => {
  const scenario = await store().made();
  const { store: theirs } = await python.open({ root: scenario.root });
  const building = python.holdBuild(
    theirs,
    identity.canonical,
    { tensors: [{ name: 'w', shape: [4096], dtype: 'uint8' }] },
    'written',
  );
  building.result.catch(() => undefined);
  expect(await building.producing).toBe(true);
  const during = await planOf(scenario);
  expect(during.entries).toEqual([]);
  expect(during.kept).toMatchObject([{ because: 'building', holders: [{ pid: python.pid }] }]);
  await python.kill();
  expect((await applied(await planOf(scenario))).results).toMatchObject([
    { status: 'removed', group: 'dead-builds' },
  ]);
  expect(scenario.names('tmp')).toEqual([]);
});

test('what is restored is a hit for them, checked in full', async () => {
  const scenario = await store().artifact('a', content).quarantined().made();
  const { store: theirs } = await python.open({ root: scenario.root });
  expect((await python.lookup(theirs, identity.canonical)).status).toBe('miss');
  valueOf(await restoreQuarantined(scenario.domain, scenario.names('quarantine')[0] as string));
  const found = await python.lookup(theirs, identity.canonical, { validation: 'full_checksum' });
  expect(found.status).toBe('hit');
});

test('20 rounds with a reader of theirs: its leases keep reading the right bytes', async () => {
  await runCleanupInterleavings('20 rounds of cleaning beside Python', {
    rounds: 20,
    outside: new PythonReader(python),
  });
});
