/**
 * vLLM-Omni processes of this machine, by their leases and by their command lines. Command lines are read in a child
 * that can be killed: that of a process stuck in a registration can wait as long as it does.
 */
import { fileURLToPath } from 'node:url';
import { askChild } from './child-answers.ts';

export interface WorkerSearch {
  /** Of stores whose leases are looked at. */
  readonly roots: readonly string[];
  readonly proc: string;
  /** Not workers: this program's own. */
  readonly without: readonly number[];
}

export interface FoundWorker {
  readonly pid: number;
  /** The name alone where the command line could not be read. */
  readonly command: string;
  readonly leases: readonly { readonly root: string; readonly key: string }[];
  readonly foundBy: readonly ('lease' | 'command')[];
}

const entry = fileURLToPath(new URL('./worker-search-process.ts', import.meta.url));

/** What was found until the deadline, by process. */
export async function findWorkers(search: WorkerSearch, deadlineMs = 5000): Promise<FoundWorker[]> {
  const found = new Map<number, FoundWorker>();
  const child = askChild(entry, search, (line) => {
    const worker = line as FoundWorker;
    found.set(worker.pid, worker);
  });
  const timer = setTimeout(() => child.stop(), deadlineMs);
  await child.gone;
  clearTimeout(timer);
  return [...found.values()].sort((a, b) => a.pid - b.pid);
}

/** `python -m vllm_omni...`, `vllm serve --omni ...`, `VLLM::Worker` and the like. */
export function isWorkerCommand(words: readonly string[]): boolean {
  const text = words.join(' ');
  return /vllm[-_]omni|VLLM::\w*Worker/i.test(text) || (/\bvllm\b/i.test(text) && /--omni\b/.test(text));
}
