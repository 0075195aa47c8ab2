/**
 * Runtime modes over a store: what a loader does with a hit, a miss or a failure.
 * `disabled` touches nothing; `preferred` falls back to loading the checkpoint where a retry could have
 * helped or nothing valid was there; `required` fails without a lease.
 * Source: host-weight store specification, section 8.
 */
import { failure, type Failure, type Outcome, type Stage } from '../contract/failure.ts';
import { getOrBuild, type BuildOptions, type StoreResult } from './build.ts';
import { monotonicMs } from './clock.ts';
import type { Domain } from './domain.ts';
import type { ArtifactIdentity } from './identity.ts';
import type { Lease } from './lease.ts';
import { lookup } from './lookup.ts';
import type { WeightProducer } from './producer.ts';

export const runtimeModes = ['disabled', 'preferred', 'required'] as const;
export type RuntimeMode = (typeof runtimeModes)[number];

export type ResolutionOutcome =
  'local_hit' | 'local_production' | 'canonical_direct' | 'canonical_fallback' | 'failed';

export type ResolutionAction =
  'return_lease' | 'try_producer' | 'quarantine_then_produce' | 'canonical_fallback' | 'fail_startup';

export interface ResolutionAttempt {
  readonly stage: Stage;
  readonly result: 'hit' | 'miss' | 'success' | 'timeout' | 'error' | 'skipped';
  readonly action: ResolutionAction;
  readonly elapsedMs: number;
  readonly failure: Failure | null;
}

export interface Resolution {
  readonly outcome: ResolutionOutcome;
  readonly attempts: readonly ResolutionAttempt[];
  readonly elapsedMs: number;
  /** The caller's to close; there for `local_hit` and `local_production` alone. */
  readonly lease: Lease | null;
}

type EnabledMode = Exclude<RuntimeMode, 'disabled'>;

/** `openedDomain` is asked for only where the mode needs a store. */
export async function resolve(
  mode: RuntimeMode,
  openedDomain: () => Promise<Outcome<Domain>>,
  identity: ArtifactIdentity,
  producer: WeightProducer | null,
  options: BuildOptions,
): Promise<Resolution> {
  const started = monotonicMs();
  const attempts: ResolutionAttempt[] = [];
  const finish = (outcome: ResolutionOutcome, lease: Lease | null = null): Resolution => ({
    outcome,
    attempts,
    elapsedMs: monotonicMs() - started,
    lease,
  });
  const attempt = (
    stage: Stage,
    result: ResolutionAttempt['result'],
    action: ResolutionAction,
    since: number,
    reason: Failure | null = null,
  ): void => void attempts.push({ stage, result, action, elapsedMs: monotonicMs() - since, failure: reason });
  const terminal = (): Resolution =>
    finish(attempts.at(-1)?.action === 'canonical_fallback' ? 'canonical_fallback' : 'failed');

  if (mode === 'disabled') return finish('canonical_direct');
  const domain = await openedDomain();
  if (!domain.ok) {
    attempt(domain.failure.stage, 'error', afterFailure(mode, domain.failure), started, domain.failure);
    return terminal();
  }

  const lookedUp = monotonicMs();
  const local = await lookup(domain.value, identity, options);
  if (local.status === 'hit') {
    attempt('lookup', 'hit', 'return_lease', lookedUp);
    return finish('local_hit', local.lease);
  }
  const usable = producer?.lookupPhase === 'pre_load_safe' ? producer : null;
  const next = afterLookup(mode, local, usable);
  attempt('lookup', attemptResult(local), next, lookedUp, 'failure' in local ? local.failure : null);
  if (local.status === 'timeout' || local.status === 'failed') return terminal();

  const produced = monotonicMs();
  if (usable === null) {
    const reason = failure(
      'production',
      'producer_unavailable',
      'nothing at hand can build exactly this artifact',
      {
        retryable: true,
      },
    );
    attempt('production', 'skipped', afterFailure(mode, reason), produced, reason);
    return terminal();
  }
  const built = await getOrBuild(domain.value, identity, usable, options);
  if ('lease' in built) {
    attempt('production', 'success', 'return_lease', produced);
    return finish('local_production', built.lease);
  }
  attempt(
    'production',
    attemptResult(built),
    afterResult(mode, built),
    produced,
    'failure' in built ? built.failure : null,
  );
  return terminal();
}

function withoutLease(mode: EnabledMode): ResolutionAction {
  return mode === 'preferred' ? 'canonical_fallback' : 'fail_startup';
}

function afterFailure(mode: EnabledMode, reason: Failure): ResolutionAction {
  return reason.retryable ? withoutLease(mode) : 'fail_startup';
}

function afterResult(mode: EnabledMode, result: StoreResult): ResolutionAction {
  if (result.status === 'timeout' || result.status === 'failed') return afterFailure(mode, result.failure);
  return withoutLease(mode);
}

function afterLookup(
  mode: EnabledMode,
  result: StoreResult,
  producer: WeightProducer | null,
): ResolutionAction {
  if (result.status === 'timeout' || result.status === 'failed') return afterFailure(mode, result.failure);
  if (producer === null) return withoutLease(mode);
  return result.status === 'invalid' ? 'quarantine_then_produce' : 'try_producer';
}

function attemptResult(result: StoreResult): ResolutionAttempt['result'] {
  if (result.status === 'miss') return 'miss';
  return result.status === 'timeout' ? 'timeout' : 'error';
}
