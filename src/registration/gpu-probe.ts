/**
 * Which GPUs there are, asked in a process of its own with a deadline. A probe that does not answer is left to
 * itself (a kill in the middle of a driver call can make things worse) and is on record, so that no second one is
 * started on a GPU while it is stuck. Source: registration specification, section 3.
 */
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { CudaDevice, GpuProcesses, LibraryAttempt } from '#native';
import { failed, failure, succeeded, type Failure, type Outcome } from '../contract/failure.ts';
import { spawnChild } from '../store/child-process.ts';
import { noDriver } from './libraries.ts';
import { stuckOn } from './registration-session.ts';
import { machineMs } from './registrar-protocol.ts';
import { insideSinceMs, newSession, processOf, type RunFolder, type RunRecord } from './run-record.ts';

export interface ProbeRequest {
  readonly record: string;
  readonly libraries: readonly string[];
  readonly management: readonly string[];
}

export type ProbeAnswer =
  | { readonly kind: 'no-driver'; readonly attempts: readonly LibraryAttempt[] }
  | {
      readonly kind: 'refused';
      readonly call: string;
      readonly code: number;
      readonly name: string;
      readonly text: string;
    }
  | ({ readonly kind: 'devices' } & FoundGpus);

export interface FoundGpus {
  readonly library: string;
  readonly simulated: boolean;
  /** The newest CUDA version of this driver: 13000 is 13.0. */
  readonly driverVersion: number;
  /** Version of the kernel driver, from the management library. */
  readonly driver: string | null;
  readonly devices: readonly CudaDevice[];
  readonly processes: GpuProcesses['processes'];
}

export interface ProbeOptions {
  readonly runs: RunFolder;
  readonly libraries: readonly string[];
  readonly management: readonly string[];
  /** UUIDs of the only GPUs that the probe may see; null: all. */
  readonly only: readonly string[] | null;
  /** Default 10,000. */
  readonly deadlineMs?: number;
}

const entry = fileURLToPath(new URL('./gpu-probe-process.ts', import.meta.url));

/** Fails with words for what is missing, refused or stuck; a stuck probe is retryable. */
export async function probeGpus({
  runs,
  libraries,
  management,
  only,
  deadlineMs = 10_000,
}: ProbeOptions): Promise<Outcome<FoundGpus>> {
  const stuck = stuckProbe(only, runs.live());
  if (stuck !== null) return failed(stuckFailure(stuck));
  const session = newSession(Date.now());
  const head = {
    session,
    kind: 'probe',
    root: null,
    key: null,
    gpuName: null,
    supervisor: process.pid,
  } as const;
  const library = libraries.length === 1 ? (libraries[0] ?? null) : null;
  const record = runs.begin({
    ...head,
    gpus: only ?? [],
    stallAfterMs: deadlineMs,
    library,
    atMs: Date.now(),
  });
  const answer = await ask({ record, libraries, management }, only, deadlineMs, () => runs.read(session));
  if (answer === 'stuck') return failed(stuckFailure(runs.read(session)));
  runs.remove(session);
  if (answer === null) return failed(driverFailure('the probe of the GPUs ended without an answer', true));
  switch (answer.kind) {
    case 'no-driver':
      return failed(noDriver(answer.attempts));
    case 'refused': {
      const { call, code, name, text } = answer;
      return failed(
        driverFailure(`the driver does not start (${call}: ${code} ${name}, ${text})`, false, { code }),
      );
    }
    case 'devices':
      return succeeded(answer);
  }
}

/** A probe looks at all GPUs that it may see, so one stuck registrar is enough to leave it be. */
function stuckProbe(only: readonly string[] | null, records: readonly RunRecord[]): RunRecord | null {
  const gpus = only ?? [...new Set(records.flatMap(({ head }) => head.gpus)), ''];
  for (const gpu of gpus) {
    const record = stuckOn(gpu, records);
    if (record !== null) return record;
  }
  return null;
}

async function ask(
  request: ProbeRequest,
  only: readonly string[] | null,
  deadlineMs: number,
  recordNow: () => RunRecord | null,
): Promise<ProbeAnswer | 'stuck' | null> {
  const env = only === null ? {} : { CUDA_VISIBLE_DEVICES: only.join(',') };
  const child = spawnChild(entry, [], { env: { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', ...env } });
  return await new Promise((resolve) => {
    let answer: ProbeAnswer | null = null;
    const late = (): void => {
      // The deadline is that of the call it is in, as everybody reads it from the record who finds it there.
      const record = recordNow();
      const sinceMs = record === null ? null : insideSinceMs(record);
      const leftMs = sinceMs === null ? 0 : deadlineMs - (machineMs() - sinceMs);
      if (leftMs >= 0 && sinceMs !== null) {
        timer = setTimeout(late, leftMs + 1);
        return;
      }
      child.kill('SIGTERM');
      child.unref();
      for (const stream of [child.stdout, child.stderr, child.stdin]) stream.destroy();
      resolve('stuck');
    };
    let timer = setTimeout(late, deadlineMs);
    const done = (): void => {
      clearTimeout(timer);
      resolve(answer);
    };
    child.on('error', done);
    child.on('close', done);
    if (child.pid === undefined) return;
    child.stdin.on('error', () => undefined);
    createInterface({ input: child.stdout }).on('line', (line) => {
      answer = JSON.parse(line) as ProbeAnswer;
    });
    child.stderr.resume();
    child.stdin.write(`${JSON.stringify(request)}\n`);
  });
}

export function stuckFailure(record: RunRecord | null): Failure {
  const child = record === null ? null : processOf(record);
  const pid = child?.pid ?? null;
  const who = record?.head.kind === 'registration' ? 'A registrar' : 'A probe';
  return failure(
    'lifecycle',
    'unsupported',
    `${who}${pid === null ? '' : ` (process ${pid})`} is stuck in the driver, so this GPU is not asked again until it is gone. \`weightroom diagnose --pid ${pid ?? 'PID'}\` shows where it is.`,
    { retryable: true, details: { reason: 'probe_stuck', pid, session: record?.head.session ?? null } },
  );
}

function driverFailure(what: string, retryable: boolean, details: Record<string, number> = {}): Failure {
  return failure('lifecycle', 'unsupported', `The GPUs cannot be listed: ${what}.`, {
    retryable,
    details: { reason: 'driver_error', ...details },
  });
}
