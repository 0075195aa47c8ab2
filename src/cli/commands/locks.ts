/** `weightroom locks`: who holds which lock, read from the kernel without disturbing anybody. */
import { storeOutcome } from '../../host/stores.ts';
import { lockStates, type LockHolder, type LockPurpose, type LockState } from '../../store/lock-holders.ts';
import type { Command, Invocation } from '../command.ts';
import { count, shortKey } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { table } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: `A shared artifact lock is a lease: somebody uses the artifact. Locks end with their holder, so none is ever
stale and no lock file needs to be deleted. "held, holder not visible": the holder lives in another container. "no permission to tell": it may be held.
With --quiet: the names of the held lock files, one a line.`,
  example: 'weightroom locks /var/lib/weights',
  run,
};

const purposes: Readonly<Record<LockPurpose, string>> = {
  init: 'opening the store',
  admission: 'admission of builds',
  build: 'build',
  artifact: 'artifact',
};

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const { root } = await openedStore(given.positional(0));
  const locks = valueOf(await storeOutcome('the locks of the store cannot be read', () => lockStates(root)));
  const held = locks.filter(({ state }) => state !== 'free');
  output.result({
    document: {
      root,
      held: held.filter(({ state }) => state === 'held').length,
      locks: locks.map(lockDocument),
    },
    text: textOf(locks, held),
    bare: held.map(({ name }) => name).join('\n'),
  });
  return exitCodes.done;
}

function lockDocument({ name, purpose, key, state, holders, waiters }: LockState): JsonDocument {
  return {
    name,
    purpose,
    key,
    state,
    holder_visible: state === 'free' ? null : holders.some(isVisible),
    holders: holders.map(holderDocument),
    waiters: waiters.map(holderDocument),
  };
}

function holderDocument({ pid, command: line, mode, startTicks }: LockHolder): JsonDocument {
  return { pid, command: line, mode, start_ticks: startTicks };
}

function isVisible({ pid }: LockHolder): boolean {
  return pid > 0;
}

function textOf(locks: readonly LockState[], held: readonly LockState[]): string {
  const free = `${count(locks.length - held.length, 'lock is', 'locks are')} free.`;
  if (held.length === 0) return `Nobody holds a lock of this store; ${free}`;
  const columns = [
    { title: 'LOCK' },
    { title: 'KEY' },
    { title: 'MODE' },
    { title: 'PID', align: 'right' },
    { title: 'COMMAND' },
  ] as const;
  return `${table(columns, held.flatMap(rows))}\n\n${free}`;
}

function rows({ purpose, key, state, holders, waiters }: LockState): string[][] {
  const lock = [purposes[purpose], key === null ? '' : shortKey(key)];
  const hidden = [
    ...lock,
    '',
    '',
    state === 'unknown' ? 'no permission to tell' : 'held, holder not visible',
  ];
  const visible = (person: LockHolder, mode: string): string[] =>
    isVisible(person) ? [...lock, mode, String(person.pid), person.command] : hidden;
  return [
    ...(holders.length === 0
      ? [hidden]
      : holders.map((holder) => visible(holder, modeWords(purpose, holder)))),
    ...waiters.map((waiter) => visible(waiter, `waits (${waiter.mode})`)),
  ];
}

function modeWords(purpose: LockPurpose, { mode }: LockHolder): string {
  return purpose === 'artifact' && mode === 'shared' ? 'shared (lease)' : mode;
}
