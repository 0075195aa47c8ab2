/**
 * Looks for workers and exits. First whoever holds a lease, by name; then command lines, one process after the other,
 * those of lease holders last: one that can't be read holds up nothing that was told before it.
 */
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { native } from '#native';
import { lockStates } from '../store/lock-holders.ts';
import { commandLineOf, namesIn } from './proc-files.ts';
import { isWorkerCommand, type FoundWorker, type WorkerSearch } from './worker-search.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
process.stdin.on('end', () => process.exit(1));

createInterface({ input: process.stdin }).once('line', (line) => {
  void search(JSON.parse(line) as WorkerSearch).then(() => process.stdout.write('', () => process.exit(0)));
});

async function search({ roots, proc, without }: WorkerSearch): Promise<void> {
  const ours = new Set([...without, process.pid]);
  const holders = new Map<number, FoundWorker>();
  for (const root of roots) {
    for (const { pid, name, key } of await leaseHolders(root, proc)) {
      if (ours.has(pid)) continue;
      const leases = [...(holders.get(pid)?.leases ?? []), { root, key }];
      holders.set(pid, { pid, command: name, leases, foundBy: ['lease'] });
    }
  }
  for (const worker of holders.values()) await tell(worker);
  const pids = namesIn(proc)
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  for (const pid of pids.filter((other) => !holders.has(other) && !ours.has(other))) {
    const words = commandLineOf(pid, proc);
    if (isWorkerCommand(words))
      await tell({ pid, command: words.join(' '), leases: [], foundBy: ['command'] });
  }
  for (const worker of holders.values()) {
    const words = commandLineOf(worker.pid, proc);
    if (words.length === 0) continue;
    const foundBy = isWorkerCommand(words) ? (['lease', 'command'] as const) : worker.foundBy;
    await tell({ ...worker, command: words.join(' '), foundBy });
  }
}

async function leaseHolders(
  root: string,
  proc: string,
): Promise<{ pid: number; name: string; key: string }[]> {
  try {
    const states = await lockStates(root, proc, 'name');
    return states.flatMap(({ purpose, key, holders }) =>
      purpose !== 'artifact' || key === null
        ? []
        : holders
            .filter(({ pid, mode }) => pid !== 0 && mode === 'shared')
            .map(({ pid, command }) => ({ pid, name: command, key })),
    );
  } catch {
    // A store that can't be read now has no leases that could be seen.
    return [];
  }
}

/** Resolves when it is out: the next step can be the one that never returns. */
async function tell(worker: FoundWorker): Promise<void> {
  const line = { ...worker, command: worker.command.slice(0, 2000) };
  await new Promise<void>((resolve) => process.stdout.write(`${JSON.stringify(line)}\n`, () => resolve()));
}
