/** Removing by key and by quarantine entry: what goes, what stays, and that links lead nowhere. */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cleanup, cleanupQuarantined } from '../../../src/store/cleanup.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { identityOf, KiB, store, temporaryFolder, valueOf, type Scenario } from '../../fixtures/store.ts';

const content = { bytes: 4 * KiB };
const key = identityOf('a').key;

function bytesOf(scenario: Scenario): number {
  const entry = scenario.artifactPath('a');
  return readdirSync(entry).reduce((sum, name) => sum + lstatSync(join(entry, name)).size, 0);
}

async function states(scenario: Scenario): Promise<string[]> {
  return (await scenario.entries()).map(({ state, reason }) => `${state} ${reason ?? ''}`.trim()).sort();
}

describe('by key', () => {
  test('the artifact, its deny marker and its tombstones go; the rest stays', async () => {
    const scenario = await store()
      .artifact('a', content)
      .quarantined('validation_failure')
      .artifact('a', content)
      .withTombstone()
      .denied()
      .deadBuild('a')
      .artifact('b', content)
      .made();
    const bytes = bytesOf(scenario);
    const locks = scenario.names('locks');
    expect(valueOf(await cleanup(scenario.domain, key))).toEqual({ removed: true, removedBytes: 2 * bytes });
    expect(await states(scenario)).toEqual(['quarantined validation_failure', 'ready', 'temporary']);
    expect((await scenario.lookup('b', 'full_checksum')).status).toBe('hit');
    expect(scenario.names('locks')).toEqual(locks);
    expect(await scenario.heldLocks()).toEqual([]);
    expect(valueOf(await cleanup(scenario.domain, key))).toEqual({ removed: false, removedBytes: 0 });
  });

  test('a deny marker alone counts as something', async () => {
    const scenario = await store().made();
    writeFileSync(scenario.denyPath('a'), '');
    expect(valueOf(await cleanup(scenario.domain, key))).toEqual({ removed: true, removedBytes: 0 });
    expect(scenario.names('deny')).toEqual([]);
  });

  test('an interrupted move is finished on the way', async () => {
    const scenario = await store().artifact('a', content).quarantined().made();
    const [name = ''] = scenario.names('quarantine');
    chmodSync(scenario.path('quarantine', name), 0o1755);
    valueOf(await cleanup(scenario.domain, key));
    expect(lstatSync(scenario.path('quarantine', name)).mode & 0o7777).toBe(0o555);
  });

  test.each(['', 'x', key.toUpperCase(), `${key}0`, key.slice(1), `${key}\n`, '../x'])(
    '%j is wrong use',
    async (text) => {
      const scenario = await store().artifact('a', content).made();
      expect(await cleanup(scenario.domain, text)).toMatchObject({
        ok: false,
        failure: { code: 'invalid_config', retryable: false },
      });
      expect(await states(scenario)).toEqual(['ready']);
    },
  );
});

describe('by quarantine entry', () => {
  test('that entry and the tombstones of its key go; the rest stays', async () => {
    const scenario = await store()
      .artifact('a', content)
      .quarantined('validation_failure')
      .artifact('a', content)
      .quarantined('publication_failure')
      .artifact('a', content)
      .withTombstone()
      .denied()
      .artifact('b', content)
      .quarantined('cleanup')
      .made();
    const name = scenario.names('quarantine').find((entry) => entry.includes('validation_failure')) ?? '';
    const bytes = bytesOf(scenario);
    expect(valueOf(await cleanupQuarantined(scenario.domain, name))).toEqual({
      removed: true,
      removedBytes: 2 * bytes,
    });
    expect(await states(scenario)).toEqual([
      'denied checksum_mismatch',
      'quarantined cleanup',
      'quarantined publication_failure',
      'ready',
    ]);
    expect(valueOf(await cleanupQuarantined(scenario.domain, name))).toEqual({
      removed: false,
      removedBytes: 0,
    });
  });

  test.each([
    '',
    '.',
    '..',
    `../artifacts/${key}`,
    `${key}.x/../../artifacts`,
    `${key}.x\0`,
    `x${key}.cleanup.y`,
    `${key.toUpperCase()}.cleanup.y`,
  ])('%j is wrong use', async (name) => {
    const scenario = await store().artifact('a', content).made();
    expect(await cleanupQuarantined(scenario.domain, name)).toMatchObject({
      ok: false,
      failure: { code: 'invalid_config', retryable: false },
    });
    expect(await states(scenario)).toEqual(['ready']);
  });

  test.each([key, `${key}x`, `${key}.odd`])(
    'whatever the inventory lists can be removed: %s',
    async (name) => {
      const scenario = await store().made();
      mkdirSync(scenario.path('quarantine', name));
      expect(await states(scenario)).toHaveLength(1);
      expect(valueOf(await cleanupQuarantined(scenario.domain, name))).toMatchObject({ removed: true });
      expect(scenario.names('quarantine')).toEqual([]);
    },
  );

  test.each(['file', 'link'] as const)('a %s is refused and kept', async (kind) => {
    const scenario = await store().made();
    const name = `${key}.validation_failure.x`;
    const elsewhere = temporaryFolder();
    if (kind === 'file') writeFileSync(scenario.path('quarantine', name), 'kept');
    else symlinkSync(elsewhere, scenario.path('quarantine', name));
    expect(await cleanupQuarantined(scenario.domain, name)).toMatchObject({
      ok: false,
      failure: { stage: 'lifecycle', code: 'quarantine_failed', retryable: false },
    });
    expect(scenario.names('quarantine')).toEqual([name]);
  });
});

test('links in a tree are removed, and what they lead to is not', async () => {
  const outside = temporaryFolder();
  writeFileSync(join(outside, 'precious'), 'kept');
  const scenario = await store().artifact('a', content).quarantined().made();
  const [name = ''] = scenario.names('quarantine');
  const entry = scenario.path('quarantine', name);
  chmodSync(entry, 0o755);
  symlinkSync(outside, join(entry, 'elsewhere'));
  symlinkSync('..', join(entry, 'parent'));
  symlinkSync('.', join(entry, 'itself'));
  symlinkSync(join(outside, 'precious'), join(entry, 'file'));
  mkdirSync(join(entry, 'sealed'));
  writeFileSync(join(entry, 'sealed', 'x'), '');
  chmodSync(join(entry, 'sealed'), 0);
  chmodSync(entry, 0o555);
  valueOf(await cleanupQuarantined(scenario.domain, name));
  expect(scenario.names('quarantine')).toEqual([]);
  expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('kept');
  expect(lstatSync(outside).mode & 0o777).toBe(0o700);
});

describe('locks are taken without waiting, the build lock first', () => {
  test.each([
    ['build', 'active_build_timeout'],
    ['artifact', 'active_lease'],
  ])('a held %s lock is told as %s, and nothing is changed', async (kind, code) => {
    const scenario = await store().artifact('a', content).quarantined().artifact('a', content).made();
    const path = scenario.path('locks', `${key}.${kind}.lock`);
    const lock = await FileLock.shared(path, withoutWaiting);
    const expected = {
      ok: false,
      failure: {
        stage: 'lifecycle',
        code,
        retryable: true,
        message: expect.stringContaining(`process ${process.pid} (`) as string,
      },
    };
    const before = await states(scenario);
    expect(await cleanup(scenario.domain, key)).toMatchObject(expected);
    expect(await cleanupQuarantined(scenario.domain, scenario.names('quarantine')[0] ?? '')).toMatchObject(
      expected,
    );
    expect(await states(scenario)).toEqual(before);
    expect(await scenario.heldLocks()).toEqual([`${key}.${kind}.lock`]);
    lock.release();
    expect(await cleanup(scenario.domain, key)).toMatchObject({ ok: true });
  });

  test('admission is not asked for', async () => {
    const scenario = await store({ admission: 'serialized', maxStoreBytes: 1e6 })
      .artifact('a', content)
      .made();
    const lock = await FileLock.exclusive(scenario.path('locks', 'domain-build.lock'), withoutWaiting);
    expect(await cleanup(scenario.domain, key)).toMatchObject({ ok: true });
    lock.release();
  });
});
