/**
 * Checking artifacts one after another at a stated level, with progress. Nothing is written: what fails is
 * reported, not denied. Within an artifact the store hashes several payloads at a time.
 */
import { newProgress } from '#native';
import type { Failure } from '../contract/failure.ts';
import type { Domain } from '../store/domain.ts';
import type { ValidationLevel } from '../store/lease.ts';
import { inspectKey, type LookupResult } from '../store/lookup.ts';

/** `busy`: somebody publishes or removes it right now. `unreadable`: the storage gave an error. */
export type VerificationStatus = 'valid' | 'invalid' | 'denied' | 'missing' | 'busy' | 'unreadable';

export interface Verification {
  readonly key: string;
  readonly status: VerificationStatus;
  readonly level: ValidationLevel;
  /** Sum of st_size of the artifact's files. */
  readonly bytes: number;
  readonly elapsedMs: number;
  readonly failure: Failure | null;
}

export interface VerificationTarget {
  readonly key: string;
  readonly bytes: number;
}

export interface VerificationProgress {
  readonly key: string;
  /** Of all targets together. */
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface VerificationOptions {
  readonly level: ValidationLevel;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: VerificationProgress) => void;
}

const reportEveryMs = 100;

/** Yields each artifact's result as it is known. Ends early, without an error, when the signal fires. */
export async function* verifyArtifacts(
  domain: Domain,
  targets: readonly VerificationTarget[],
  options: VerificationOptions,
): AsyncGenerator<Verification, void, void> {
  const totalBytes = targets.reduce((total, target) => total + target.bytes, 0);
  let doneBytes = 0;
  for (const target of targets) {
    const before = doneBytes;
    const result = await verifyOne(domain, target, options, (bytes) =>
      options.onProgress({ key: target.key, doneBytes: before + Math.min(bytes, target.bytes), totalBytes }),
    );
    if (result === null) return;
    doneBytes += target.bytes;
    yield result;
  }
}

/** Null when it was interrupted. */
async function verifyOne(
  domain: Domain,
  { key, bytes }: VerificationTarget,
  { level, signal }: VerificationOptions,
  report: (hashedBytes: number) => void,
): Promise<Verification | null> {
  const progress = newProgress();
  const reportNow = (): void => report(Number(Atomics.load(progress, 0)));
  const timer = setInterval(reportNow, reportEveryMs);
  const started = performance.now();
  try {
    reportNow();
    const result = await inspectKey(domain, key, { validation: level, signal, progress });
    if (result.status === 'hit') result.lease.close();
    const reason = 'failure' in result ? result.failure : null;
    return {
      key,
      status: statusOf(result),
      level,
      bytes,
      elapsedMs: performance.now() - started,
      failure: reason,
    };
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  } finally {
    clearInterval(timer);
  }
}

function statusOf(result: LookupResult): VerificationStatus {
  switch (result.status) {
    case 'hit':
      return 'valid';
    case 'miss':
      return 'missing';
    case 'invalid':
      return result.failure.code === 'artifact_denied' ? 'denied' : 'invalid';
    case 'timeout':
      return 'busy';
    case 'failed':
      return 'unreadable';
  }
}
