/** Putting a quarantined entry back: only what is whole, only where its key is free. */
import { chmodSync, lstatSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { restoreQuarantined } from '../../../src/store/restore.ts';
import { flipPayloadBit, KiB, store, valueOf, type Scenario } from '../../fixtures/store.ts';

function entryOf(scenario: Scenario): string {
  return scenario.names('quarantine')[0] as string;
}

async function failureOf(
  scenario: Scenario,
  name = entryOf(scenario),
): Promise<{ code: string; message: string; retryable: boolean }> {
  const outcome = await restoreQuarantined(scenario.domain, name);
  if (outcome.ok) throw new Error('it was restored');
  return outcome.failure;
}

describe('an entry that is whole is a hit again', () => {
  test.each(['validation_failure', 'publication_failure', 'cleanup'] as const)(
    'out of %s',
    async (reason) => {
      const scenario = await store()
        .artifact('a', { bytes: 64 * KiB })
        .quarantined(reason)
        .made();
      const restored = valueOf(await restoreQuarantined(scenario.domain, entryOf(scenario)));
      expect(restored.key).toBe(scenario.key('a'));
      expect(restored.payloadBytes).toBe(lstatSync(scenario.artifactPath('a', 'weights.safetensors')).size);
      expect(lstatSync(scenario.artifactPath('a')).mode & 0o7777).toBe(0o555);
      expect(scenario.names('quarantine')).toEqual([]);
      expect((await scenario.lookup('a', 'full_checksum')).status).toBe('hit');
      expect(await scenario.heldLocks()).toEqual([]);
    },
  );

  test('after an interrupted move, with the deny marker that stood against it gone', async () => {
    const scenario = await store().artifact('a').denied().quarantined().made();
    chmodSync(scenario.path('quarantine', entryOf(scenario)), 0o1755);
    valueOf(await restoreQuarantined(scenario.domain, entryOf(scenario)));
    expect(scenario.names('deny')).toEqual([]);
    expect((await scenario.lookup('a', 'full_checksum')).status).toBe('hit');
  });
});

describe('stays in quarantine:', () => {
  test('a flipped payload bit, which only the full level sees', async () => {
    const scenario = await store().artifact('a').corrupted().quarantined().denied().made();
    expect(await failureOf(scenario)).toMatchObject({ code: 'checksum_mismatch', retryable: false });
    expect(scenario.names('artifacts')).toEqual([]);
    expect(scenario.names('deny')).toHaveLength(1);
  });

  test('what is half removed', async () => {
    const scenario = await store().artifact('a').quarantined('cleanup').made();
    const path = scenario.path('quarantine', entryOf(scenario));
    chmodSync(path, 0o755);
    rmSync(scenario.path('quarantine', entryOf(scenario), 'weights.safetensors'));
    chmodSync(path, 0o555);
    expect((await failureOf(scenario)).code).toBe('manifest_corrupt');
  });

  test('what came out of a collision', async () => {
    const scenario = await store().artifact('a').quarantined('identity-collision').made();
    expect((await failureOf(scenario)).code).toBe('identity_collision');
  });

  test('where the key is taken', async () => {
    const scenario = await store().artifact('a').quarantined().artifact('a').made();
    expect((await failureOf(scenario)).message).toContain('is there already');
    expect((await scenario.lookup('a')).status).toBe('hit');
  });

  test('what holds the identity of another key', async () => {
    const scenario = await store().artifact('a').quarantined().made();
    const name = `${scenario.key('b')}.validation_failure.1`;
    chmodSync(scenario.path('quarantine', entryOf(scenario)), 0o755);
    renameSync(scenario.path('quarantine', entryOf(scenario)), scenario.path('quarantine', name));
    chmodSync(scenario.path('quarantine', name), 0o555);
    expect((await failureOf(scenario, name)).code).toBe('manifest_incompatible');
  });

  test.each(['build', 'artifact'])('while the %s lock of its key is held', async (kind) => {
    const scenario = await store().artifact('a').quarantined().made();
    const path = scenario.path('locks', `${scenario.key('a')}.${kind}.lock`);
    const lock = await FileLock.exclusive(path, withoutWaiting);
    onTestFinished(() => lock.release());
    const failure = await failureOf(scenario);
    expect(failure.retryable).toBe(true);
    expect(failure.message).toContain(`process ${process.pid} (`);
  });
});

test('a name that is none, or of nothing, or of a file', async () => {
  const scenario = await store().made();
  expect((await failureOf(scenario, '../artifacts')).code).toBe('invalid_config');
  expect((await failureOf(scenario, scenario.key('a'))).code).toBe('invalid_config');
  expect((await failureOf(scenario, `${scenario.key('a')}.cleanup.1`)).code).toBe('local_miss');
  writeFileSync(scenario.path('quarantine', `${scenario.key('a')}.x.1`), 'file');
  expect((await failureOf(scenario, `${scenario.key('a')}.x.1`)).code).toBe('quarantine_failed');
});

test('giving up changes nothing and holds nothing', async () => {
  const scenario = await store().artifact('a').quarantined().made();
  const leaving = new AbortController();
  leaving.abort(new Error('the caller left'));
  const name = entryOf(scenario);
  await expect(restoreQuarantined(scenario.domain, name, { signal: leaving.signal })).rejects.toThrow(
    'the caller left',
  );
  expect(scenario.names('quarantine')).toEqual([name]);
  expect((await scenario.lookup('a')).status).toBe('miss');
  expect(await scenario.heldLocks()).toEqual([]);
});

test('a bit that flips while it is in quarantine is found whatever the reason was', async () => {
  const scenario = await store().artifact('a').quarantined().made();
  flipPayloadBit(scenario.path('quarantine', entryOf(scenario), 'weights.safetensors'));
  expect((await failureOf(scenario)).code).toBe('checksum_mismatch');
});
