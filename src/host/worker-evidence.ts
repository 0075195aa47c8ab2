/** What a worker's log tells, in the form that diagnosis takes. */
import type { SessionEvidence } from '../registration/evidence.ts';
import type { WorkerState } from '../registration/worker-log.ts';

/** CUresult names and numbers as workers log them. */
const code = /\b(?:error|code|returned)[ :=]*(\d{1,3})\b/i;

/** `nowMs`: for a range that was entered while the log was followed; before that nobody knows for how long. */
export function workerEvidence(worker: WorkerState, nowMs: number): SessionEvidence {
  const { state, lastEntered, registeredBytes, reason, readAtMs } = worker;
  const number = code.exec(reason ?? '')?.[1];
  const isOut = lastEntered !== null && !lastEntered.done && state === 'registering';
  return {
    state: isOut ? 'stalled' : state,
    reason:
      reason === null
        ? null
        : {
            kind: kindOf(reason),
            code: number === undefined ? null : Number(number),
            name: null,
            message: reason,
          },
    lastEntered:
      lastEntered === null
        ? null
        : {
            file: '',
            region: lastEntered.region,
            regions: lastEntered.regions,
            chunk: 1,
            chunks: 1,
            bytes: lastEntered.bytes,
            insideSeconds: isOut ? (readAtMs === null ? 0 : (nowMs - readAtMs) / 1000) : null,
          },
    planBytes: null,
    registeredBytes,
    limitBytes: null,
    gpuName: null,
    ignoredTermination: false,
  };
}

function kindOf(
  reason: string,
): 'disabled' | 'over_budget' | 'unsupported' | 'rollback_failed' | 'unregister_failed' | 'driver_error' {
  if (/disabled by/.test(reason)) return 'disabled';
  if (/limit|budget|exceed/i.test(reason)) return 'over_budget';
  if (/read.?only|not support|unsupported/i.test(reason)) return 'unsupported';
  if (/rollback failed/.test(reason)) return 'rollback_failed';
  return /unregistration failed/.test(reason) ? 'unregister_failed' : 'driver_error';
}
