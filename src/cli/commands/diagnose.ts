/** `weightroom diagnose`: why a registration, a process or a worker does not get on, with evidence. */
import { isSystemError } from '#native';
import { failure, FailureError } from '../../contract/failure.ts';
import { bundleDiagnosis } from '../../host/bundling.ts';
import { diagnoseProcess, diagnoseSession, type DiagnosedSession } from '../../host/diagnosing.ts';
import { workerEvidence } from '../../host/worker-evidence.ts';
import { LogFollower } from '../../registration/log-follower.ts';
import { WorkerLog, type WorkerState } from '../../registration/worker-log.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { formatDuration } from '../durations.ts';
import { cudaLibraryOption, withGpus } from '../gpu-arguments.ts';
import { encodeDocument, type JsonDocument } from '../json-document.ts';
import { formatSize } from '../sizes.ts';
import { wrongUse } from '../wrong-use.ts';
import { findingWords } from './register.ts';

export const command: Command = {
  positionals: [],
  options: {
    session: { value: 'ID', help: 'a registration of ours, as its events name it' },
    pid: { value: 'PID', help: 'any process, for example a vLLM-Omni worker' },
    log: { value: 'FILE', help: "a vLLM-Omni log; its workers' processes are looked at too" },
    follow: { help: 'with --log: go on as the log grows, until Ctrl+C' },
    bundle: { value: 'FILE', help: 'write a redacted .tar.gz for a bug report' },
    ...cudaLibraryOption,
  },
  details: `Gathered without touching the memory of the process. What can't be read is said; kernel stacks are for root only.
The bundle has no environment, the home directory and tokens are replaced.`,
  example: 'weightroom diagnose --log vllm.log --follow',
  interruptible: true,
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  const { arguments: given } = invocation;
  const [session, pid, log] = [given.text('session'), given.text('pid'), given.text('log')];
  if ([session, pid, log].filter((value) => value !== undefined).length !== 1) {
    throw wrongUse('give one of --session ID, --pid PID and --log FILE.');
  }
  if (given.flag('follow') && log === undefined) throw wrongUse('--follow goes with --log FILE.');
  if (log !== undefined) return await diagnoseLog(invocation, log);
  return await withGpus(invocation, async (gpus) => {
    const found =
      session === undefined
        ? await diagnoseProcess(gpus, parsePid(pid ?? ''))
        : await diagnoseSession(gpus, session);
    if (session !== undefined && found.record === null) {
      throw wrongUse(`there is no session ${JSON.stringify(session)} on record.`);
    }
    if (pid !== undefined && found.full.process === null) throw wrongUse(`there is no process ${pid}.`);
    await bundle(invocation, found, []);
    return report(invocation, found, []);
  });
}

async function diagnoseLog(invocation: Invocation, path: string): Promise<ExitCode> {
  const { arguments: given, output, signal } = invocation;
  const log = new WorkerLog();
  let isOld = true;
  const follower = new LogFollower(path, (line) => log.read(line, isOld ? null : Date.now()));
  try {
    await follower.readOn(signal);
    isOld = false;
    if (given.flag('follow')) await follow(follower, log, invocation);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new FailureError(
      failure('configuration', 'invalid_config', `${path} cannot be read: ${error.message}`),
    );
  } finally {
    await follower.close();
  }
  return await withGpus(invocation, async (gpus) => {
    let found: DiagnosedSession | null = null;
    for (const worker of log.workers) {
      const next = await diagnoseProcess(gpus, worker.pid ?? 0, workerEvidence(worker, Date.now()));
      if (found === null || next.findings.length > found.findings.length) found = next;
    }
    if (found === null) {
      output.result({
        document: { workers: [], findings: [], evidence: {} },
        text: 'The log has no line about registration. Versions before range lines log only the end of it.',
      });
      return exitCodes.done;
    }
    await bundle(invocation, found, log.workers);
    return report(invocation, found, log.workers);
  });
}

/** Until the signal: what changes is told as it does. */
async function follow(follower: LogFollower, log: WorkerLog, { output, signal }: Invocation): Promise<void> {
  let told = '';
  while (!signal.aborted) {
    const now = log.workers;
    const text = JSON.stringify(now);
    if (text !== told) {
      told = text;
      if (output.mode.json) process.stdout.write(`${encodeDocument({ workers: now.map(workerDocument) })}\n`);
      else output.note(now.map(workerWords).join('\n'));
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, 250);
      signal.addEventListener('abort', done, { once: true });
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      }
    });
    await follower.readOn(signal);
  }
}

async function bundle(
  { arguments: given, output, env }: Invocation,
  found: DiagnosedSession,
  workers: readonly WorkerState[],
): Promise<void> {
  const path = given.text('bundle');
  if (path === undefined) return;
  await bundleDiagnosis(path, found, { env, workers });
  output.note(`Wrote ${path}. Look through it before you send it to anybody.`);
}

function report(
  { output }: Invocation,
  { findings, evidence }: DiagnosedSession,
  workers: readonly WorkerState[],
): ExitCode {
  const text = [
    ...workers.map(workerWords),
    findings.length === 0 ? 'Nothing is wrong as far as the evidence shows.' : findingWords(findings),
  ].join('\n');
  output.result({
    document: { findings, evidence, ...(workers.length > 0 ? { workers: workers.map(workerDocument) } : {}) },
    text,
    bare: findings.map(({ rule }) => rule).join('\n'),
  });
  return exitCodes.done;
}

function workerDocument({
  worker,
  pid,
  state,
  regions,
  lastEntered,
  registeredBytes,
  loggedAt,
  reason,
}: WorkerState): JsonDocument {
  return {
    worker,
    pid,
    state,
    regions,
    last_entered: lastEntered,
    left: leftOf(regions, lastEntered),
    registered_bytes: registeredBytes,
    logged_at: loggedAt,
    reason,
  };
}

function leftOf(regions: number | null, last: WorkerState['lastEntered']): number | null {
  return regions === null || last === null ? null : regions - last.region + (last.done ? 0 : 1);
}

function workerWords({
  worker,
  state,
  lastEntered,
  regions,
  registeredBytes,
  readAtMs,
  loggedAt,
  reason,
}: WorkerState): string {
  const name = worker === '' ? 'the worker' : worker;
  if (lastEntered === null || state !== 'registering') {
    return `${name}: ${state}${registeredBytes > 0 ? `, ${formatSize(registeredBytes)}` : ''}${reason === null ? '' : ` (${reason})`}`;
  }
  const { region, bytes, done, seconds } = lastEntered;
  const when =
    readAtMs === null
      ? loggedAt === null
        ? ''
        : `, at ${loggedAt}`
      : `, ${formatDuration(Date.now() - readAtMs)} ago`;
  const what = done ? `done in ${seconds} s` : `entered${when}, not done`;
  return `${name}: range ${region} of ${regions} (${formatSize(bytes)}) ${what}; ${leftOf(regions, lastEntered)} left`;
}

function parsePid(text: string): number {
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text);
  throw wrongUse(`--pid takes a process id, not ${JSON.stringify(text)}.`);
}
