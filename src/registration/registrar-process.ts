/**
 * The registrar: one registration on one GPU, then exit. A call into the driver can hang for ever, so it is made on
 * a thread of its own in a process of its own; this process's main thread keeps answering.
 *
 * It goes when its stdin ends and at SIGTERM: it lets the running call come back, gives the pages back, closes the
 * lease, and exits. When its parent dies it is killed. A call that does not come back within a second is left standing, and
 * the process ends with it: the kernel then frees the lease as soon as the driver lets go of the process.
 */
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { native } from '#native';
import { startTicksOf } from './proc-files.ts';
import { RegistrarJob, type RegistrarNews } from './registrar-job.ts';
import {
  callGraceMs,
  machineMs,
  releaseLine,
  type RegistrarEvent,
  type RegistrarRequest,
} from './registrar-protocol.ts';
import { RecordWriter } from './run-record.ts';

// A call can hold up every thread of this process. Nobody is left then who could ask it to go, and only SIGKILL frees
// the lease. While the parent lives it asks first: the end of stdin, SIGTERM, and then whoever decides.
native.setParentDeathSignal(constants.signals.SIGKILL);

const ending = new AbortController();
const released = Promise.withResolvers<void>();
let record: RecordWriter | null = null;
let job: RegistrarJob | null = null;

const end = (): void => {
  if (ending.signal.aborted) return;
  ending.abort(new Error('the registration was ended'));
  released.resolve();
  setInterval(() => {
    if (job === null || job.insideMs > callGraceMs) native.exitNow(128 + constants.signals.SIGTERM);
  }, 50);
};
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, end);
process.stdout.on('error', end);

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  if (line === releaseLine) released.resolve();
  else if (job === null) void work(JSON.parse(line) as RegistrarRequest);
});
lines.on('close', end);

async function work(request: RegistrarRequest): Promise<void> {
  record = new RecordWriter(request.record);
  emit({ event: 'started', pid: process.pid, startTicks: startTicksOf(process.pid) });
  job = new RegistrarJob(request, { emit, signal: ending.signal });
  let clean = !(await job.register()) && !job.holdsPages;
  if (!clean) {
    await released.promise;
    clean = await job.release();
  }
  // Pages that can't be given back hold the lease for as long as anybody listens.
  if (!clean && !ending.signal.aborted)
    await new Promise((resolve) => ending.signal.addEventListener('abort', resolve));
  process.stdout.write('', () => native.exitNow(0));
}

function emit(news: RegistrarNews): void {
  const event = { ...news, atMs: Date.now(), monotonicMs: machineMs() } as RegistrarEvent;
  record?.write(event);
  process.stdout.write(`${JSON.stringify(event)}\n`);
}
