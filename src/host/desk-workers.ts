/** vLLM-Omni workers that somebody else started, as the desk shows them: who they are, and what their log tells. */
import { userInfo } from 'node:os';
import { failure, FailureError } from '../contract/failure.ts';
import type { Worker, WorkerProgress, logEvent } from '../contract/gpu-schemas.ts';
import type { z } from 'zod';
import { watchLog } from '../registration/log-watching.ts';
import { redactText } from '../registration/redaction.ts';
import type { RunFolder } from '../registration/run-record.ts';
import { processOf } from '../registration/run-record.ts';
import { findWorkers } from '../registration/worker-search.ts';
import type { WorkerState } from '../registration/worker-log.ts';
import { callError } from './call-errors.ts';
import { EventStream } from './event-stream.ts';

export async function listWorkers(
  roots: readonly string[],
  runs: RunFolder,
  home: string,
): Promise<Worker[]> {
  const own = runs.live().flatMap((record) => processOf(record)?.pid ?? []);
  const found = await findWorkers({ roots, proc: '/proc', without: [process.pid, ...own] });
  const person = { home, user: userInfo().username };
  return found.map((worker) => ({ ...worker, command: redactText(worker.command, person) }));
}

/** Ends with a failure when the log can't be read. */
export function followLog(
  path: string,
  signal: AbortSignal | undefined,
  onBug: (error: unknown) => void,
): EventStream<z.output<typeof logEvent>> {
  const stop = watchLog(path, {
    onWorkers: (workers) => stream.push({ workers: workers.map(progressOf) }, 'workers'),
    onEnd: (problem) => {
      const why = failure('configuration', 'invalid_config', `${path} cannot be read: ${problem}`);
      stream.fail(callError(new FailureError(why), onBug));
    },
  });
  const stream = new EventStream<z.output<typeof logEvent>>({ signal, onClose: stop });
  return stream.start();
}

function progressOf(state: WorkerState): WorkerProgress {
  const { regions, lastEntered: last } = state;
  const left = regions === null || last === null ? null : regions - last.region + (last.done ? 0 : 1);
  return { ...state, left };
}
