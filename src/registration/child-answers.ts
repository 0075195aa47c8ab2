/** A child that answers in lines of JSON, for as long as it may. */
import { createInterface } from 'node:readline';
import { spawnChild } from '../store/child-process.ts';

export interface AskedChild {
  /** Resolves when it is gone. */
  readonly gone: Promise<void>;
  /** What can hang is in there: it is killed and not asked. */
  stop(): void;
}

/** `entry` gets `request` as one line on its stdin; `onLine` each line that it writes. */
export function askChild(entry: string, request: unknown, onLine: (line: unknown) => void): AskedChild {
  const child = spawnChild(entry);
  const gone = Promise.withResolvers<void>();
  child.on('error', () => gone.resolve());
  child.on('close', () => gone.resolve());
  child.stdin.on('error', () => undefined);
  child.stderr.resume();
  if (child.pid !== undefined) {
    createInterface({ input: child.stdout }).on('line', (line) => onLine(JSON.parse(line)));
    child.stdin.write(`${JSON.stringify(request)}\n`);
  }
  return { gone: gone.promise, stop: () => void child.kill('SIGKILL') };
}
