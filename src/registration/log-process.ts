/**
 * Follows a worker's log and tells where its workers stand, one line of JSON for each change. A process of its own:
 * a log can be many GiB, and lie on a file system that hangs.
 */
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { native } from '#native';
import { LogFollower } from './log-follower.ts';
import { WorkerLog } from './worker-log.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
process.stdin.on('end', () => process.exit(1));

const betweenMs = 250;

createInterface({ input: process.stdin }).once('line', (line) => {
  const { path } = JSON.parse(line) as { path: string };
  void follow(path).catch((error: unknown) => {
    const problem = error instanceof Error ? error.message : String(error);
    process.stdout.write(`${JSON.stringify({ problem })}\n`, () => process.exit(1));
  });
});

async function follow(path: string): Promise<never> {
  const log = new WorkerLog();
  let isOld = true;
  let changed = true;
  const follower = new LogFollower(path, (line) => {
    changed = log.read(line, isOld ? null : Date.now()) || changed;
  });
  for (;;) {
    await follower.readOn();
    isOld = false;
    if (changed) process.stdout.write(`${JSON.stringify({ workers: log.workers })}\n`);
    changed = false;
    await new Promise((resolve) => setTimeout(resolve, betweenMs));
  }
}
