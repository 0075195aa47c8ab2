/** A worker's log, followed by a child. */
import { fileURLToPath } from 'node:url';
import { askChild } from './child-answers.ts';
import type { WorkerState } from './worker-log.ts';

const entry = fileURLToPath(new URL('./log-process.ts', import.meta.url));

export interface LogWatch {
  readonly onWorkers: (workers: readonly WorkerState[]) => void;
  /** It can't be read, or is no longer. Called once, and not after `stop`. */
  readonly onEnd: (problem: string) => void;
}

/** Returns what stops it. */
export function watchLog(path: string, { onWorkers, onEnd }: LogWatch): () => void {
  let problem = 'the process that reads it ended';
  let stopped = false;
  const child = askChild(entry, { path }, (line) => {
    const news = line as { workers?: readonly WorkerState[]; problem?: string };
    if (news.workers !== undefined) onWorkers(news.workers);
    problem = news.problem ?? problem;
  });
  void child.gone.then(() => {
    if (!stopped) onEnd(problem);
  });
  return () => {
    stopped = true;
    child.stop();
  };
}
