/** What a loader does with a hit, a miss or a failure, by runtime mode. */
import { describe, expect, test } from 'vitest';
import { failed, failure, succeeded, type Failure } from '../../../src/contract/failure.ts';
import { deadlineIn } from '../../../src/store/clock.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import type { WeightProducer } from '../../../src/store/producer.ts';
import { resolve, type Resolution, type RuntimeMode } from '../../../src/store/resolve.ts';
import {
  identityOf,
  KiB,
  producerOf,
  store,
  syntheticProducer,
  type Scenario,
} from '../../fixtures/store.ts';

const content = { bytes: 4 * KiB };
const identity = identityOf('a');
const producer = syntheticProducer(identity, content);
const failing = producerOf(identity, () => Promise.reject(new Error('the checkpoint is unreadable')));

async function resolved(
  mode: RuntimeMode,
  scenario: Scenario | Failure,
  by: WeightProducer | null = producer,
): Promise<Omit<Resolution, 'lease'> & { leased: boolean }> {
  const opened = 'domain' in scenario ? succeeded(scenario.domain) : failed(scenario);
  const options = { deadline: deadlineIn(20), validation: 'full_checksum' } as const;
  const { lease, ...rest } = await resolve(mode, async () => opened, identity, by, options);
  lease?.close();
  return { ...rest, leased: lease !== null };
}

/** Outcome, then stage, result and action of each attempt. */
function told({ outcome, attempts, leased }: Awaited<ReturnType<typeof resolved>>): string[] {
  expect(leased).toBe(outcome === 'local_hit' || outcome === 'local_production');
  return [outcome, ...attempts.map(({ stage, result, action }) => `${stage} ${result} ${action}`)];
}

test('disabled touches nothing', async () => {
  const opened = (): never => expect.unreachable();
  const resolution = await resolve('disabled', opened, identity, producer, { deadline: null });
  expect(resolution).toMatchObject({ outcome: 'canonical_direct', attempts: [], lease: null });
});

describe.each(['preferred', 'required'] as const)('%s', (mode) => {
  const fallback = mode === 'preferred' ? 'canonical_fallback' : 'failed';
  const action = mode === 'preferred' ? 'canonical_fallback' : 'fail_startup';

  test('a hit', async () => {
    const scenario = await store().artifact('a', content).made();
    expect(told(await resolved(mode, scenario))).toEqual(['local_hit', 'lookup hit return_lease']);
    expect(told(await resolved(mode, scenario, null))).toEqual(['local_hit', 'lookup hit return_lease']);
  });

  test('a miss that is built', async () => {
    expect(told(await resolved(mode, await store().made()))).toEqual([
      'local_production',
      'lookup miss try_producer',
      'production success return_lease',
    ]);
  });

  test('an invalid artifact that is rebuilt', async () => {
    const scenario = await store().artifact('a', content).corrupted().made();
    expect(told(await resolved(mode, scenario))).toEqual([
      'local_production',
      'lookup error quarantine_then_produce',
      'production success return_lease',
    ]);
    expect(await scenario.entries('quarantined')).toHaveLength(1);
  });

  test.each([
    ['nothing at hand', null],
    ['one that needs a loaded model', { ...producer, lookupPhase: 'post_load_only' as const }],
  ])('a miss with %s to build it', async (_, by) => {
    const resolution = await resolved(mode, await store().made(), by);
    expect(told(resolution)).toEqual([fallback, `lookup miss ${action}`, `production skipped ${action}`]);
    expect(resolution.attempts.at(-1)?.failure).toMatchObject({
      code: 'producer_unavailable',
      retryable: true,
    });
  });

  test('an invalid artifact with nothing at hand', async () => {
    const scenario = await store().artifact('a', content).corrupted().made();
    expect(told(await resolved(mode, scenario, null))).toEqual([
      fallback,
      `lookup error ${action}`,
      `production skipped ${action}`,
    ]);
  });

  test('a producer that fails, which no retry cures', async () => {
    expect(told(await resolved(mode, await store().made(), failing))).toEqual([
      'failed',
      'lookup miss try_producer',
      'production error fail_startup',
    ]);
  });

  test('a limit, which a retry may cure', async () => {
    const scenario = await store({ maxStoreBytes: KiB }).made();
    expect(told(await resolved(mode, scenario))).toEqual([
      fallback,
      'lookup miss try_producer',
      `production error ${action}`,
    ]);
  });

  test('a lock that stays held', async () => {
    const scenario = await store().made();
    const lock = await FileLock.exclusive(
      scenario.path('locks', `${identity.key}.artifact.lock`),
      withoutWaiting,
    );
    expect(told(await resolved(mode, scenario))).toEqual([fallback, `lookup timeout ${action}`]);
    lock.release();
    const build = await FileLock.exclusive(
      scenario.path('locks', `${identity.key}.build.lock`),
      withoutWaiting,
    );
    expect(told(await resolved(mode, scenario))).toEqual([
      fallback,
      'lookup miss try_producer',
      `production timeout ${action}`,
    ]);
    build.release();
  });

  test.each([true, false])('a domain that cannot be opened, retryable: %s', async (retryable) => {
    const reason = failure('domain', 'domain_unavailable', 'the disk is not mounted', { retryable });
    const resolution = await resolved(mode, reason);
    expect(told(resolution)).toEqual(
      retryable ? [fallback, `domain error ${action}`] : ['failed', 'domain error fail_startup'],
    );
    expect(resolution.attempts[0]?.failure).toEqual(reason);
  });
});
