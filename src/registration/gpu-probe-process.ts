/**
 * The probe: asks the driver which GPUs there are, tells, and exits. A process of its own with a deadline, because
 * after a fault even this can hang for ever. One request as a line of JSON on stdin, one answer on stdout.
 */
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { native, type CudaStatus } from '#native';
import { startTicksOf } from './proc-files.ts';
import type { ProbeAnswer, ProbeRequest } from './gpu-probe.ts';
import { machineMs, type Step } from './registrar-protocol.ts';
import { RecordWriter } from './run-record.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
process.stdin.on('end', () => native.exitNow(1));

createInterface({ input: process.stdin }).once('line', (line) => {
  void probe(JSON.parse(line) as ProbeRequest).then((answer) => {
    // The driver's exit handlers are none of ours to wait for.
    process.stdout.write(`${JSON.stringify(answer)}\n`, () => native.exitNow(0));
  });
});

async function probe({ record: path, libraries, management }: ProbeRequest): Promise<ProbeAnswer> {
  const record = new RecordWriter(path);
  const stamp = (): { atMs: number; monotonicMs: number } => ({ atMs: Date.now(), monotonicMs: machineMs() });
  const step = (name: Step): void => record.write({ event: 'step', step: name, ...stamp() });
  record.write({ event: 'started', pid: process.pid, startTicks: startTicksOf(process.pid), ...stamp() });
  const thread = native.cudaThread();
  step('loading-driver');
  const { path: library, simulated, attempts } = await native.cudaLoad(thread, libraries);
  if (library === null) return { kind: 'no-driver', attempts };
  step('initialising-driver');
  const started = await native.cudaInitialise(thread);
  if (started.code !== 0) return refused(started);
  step('asking-device');
  const found = await native.cudaDevices(thread);
  if (found.code !== 0) return refused(found);
  const { processes, driver } = await native.gpuProcesses(management);
  const { driverVersion } = started;
  return { kind: 'devices', library, simulated, driverVersion, driver, devices: found.devices, processes };
}

function refused({ call, code, name, text }: CudaStatus): ProbeAnswer {
  return { kind: 'refused', call, code, name, text };
}
