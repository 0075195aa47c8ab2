/** Asks a process of its own for evidence, and makes do with nothing where that does not answer in time. */
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnChild } from '../store/child-process.ts';
import { machineEvidence, type Evidence } from './evidence.ts';

export interface EvidenceRequest {
  readonly pid: number | null;
  /** The file of the last range that was entered. */
  readonly payload: string | null;
  readonly artifact: { readonly root: string; readonly key: string } | null;
  /** This program's state directory. */
  readonly state: string;
  readonly proc: string;
  readonly sys: string;
}

const entry = fileURLToPath(new URL('./evidence-process.ts', import.meta.url));
const deadlineMs = 8000;

export async function gatherEvidence(request: EvidenceRequest): Promise<Omit<Evidence, 'session'>> {
  const child = spawnChild(entry);
  const answer = await new Promise<Omit<Evidence, 'session'> | null>((resolve) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      resolve(null);
    }, deadlineMs);
    let found: Omit<Evidence, 'session'> | null = null;
    const done = (): void => {
      clearTimeout(timer);
      resolve(found);
    };
    child.on('error', done);
    child.on('close', done);
    if (child.pid === undefined) return;
    child.stdin.on('error', () => undefined);
    child.stderr.resume();
    createInterface({ input: child.stdout }).on('line', (line) => {
      found = JSON.parse(line) as Omit<Evidence, 'session'>;
    });
    child.stdin.write(`${JSON.stringify(request)}\n`);
  });
  return answer ?? nothingGathered(request);
}

function nothingGathered({ pid, proc, sys }: EvidenceRequest): Omit<Evidence, 'session'> {
  const machine = machineEvidence({ proc, sys, kernelLog: () => null });
  return { pid, process: null, cgroup: null, ...machine, payload: null, others: [] };
}
