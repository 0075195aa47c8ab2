/** A verification that belongs to whoever asked for it: told as it goes, stopped when they leave. */
import type { Verification, VerificationEvent } from '../contract/artifact-schemas.ts';
import { TransferRate } from '../production/transfer-rate.ts';
import type { Domain } from '../store/domain.ts';
import type { ValidationLevel } from '../store/lease.ts';
import { EventStream } from './event-stream.ts';
import { missingArtifact } from './stores.ts';
import { verifyArtifacts, type VerificationTarget } from './verification.ts';

export interface VerificationRun {
  readonly target: VerificationTarget;
  readonly level: ValidationLevel;
  /** Fires when the caller is gone. */
  readonly signal: AbortSignal | undefined;
  readonly now: () => number;
  readonly onResult: (result: Verification) => void;
  /** What the caller is to get for what was thrown. */
  readonly translate: (error: unknown) => unknown;
}

export function verificationStream(domain: Domain, run: VerificationRun): EventStream<VerificationEvent> {
  const leaving = new AbortController();
  const stream = new EventStream<VerificationEvent>({
    signal: run.signal,
    onClose: () => leaving.abort(new Error('the caller left')),
  });
  void verifyInto(stream, domain, run, leaving.signal).catch((error: unknown) =>
    stream.fail(run.translate(error)),
  );
  return stream.start();
}

async function verifyInto(
  stream: EventStream<VerificationEvent>,
  domain: Domain,
  { target, level, now, onResult }: VerificationRun,
  signal: AbortSignal,
): Promise<void> {
  const rate = new TransferRate();
  const results = verifyArtifacts(domain, [target], {
    level,
    signal,
    onProgress: ({ doneBytes, totalBytes }) => {
      rate.add(performance.now(), doneBytes);
      const { bytesPerSecond } = rate;
      const secondsLeft = rate.secondsLeft(totalBytes);
      stream.push({ type: 'progress', doneBytes, totalBytes, bytesPerSecond, secondsLeft }, 'progress');
    },
  });
  for await (const found of results) {
    const failure =
      found.status === 'missing'
        ? missingArtifact(found.key, `artifact ${found.key} is not in the store`)
        : found.failure;
    const result: Verification = { ...found, failure, atMs: now() };
    onResult(result);
    stream.push({ type: 'result', result });
  }
  stream.end();
}
