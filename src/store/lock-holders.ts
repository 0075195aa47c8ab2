/**
 * Who holds which lock, read from the kernel's own table and so without disturbing anybody.
 *
 * `/proc/locks` names a lock by the device of its superblock and its inode. On overlay and btrfs that device
 * is not a file's st_dev, so both are tried, the other one from mountinfo. A holder in another PID namespace
 * has no row that we could see; only then is the lock tried for an instant.
 *
 * Source: host-weight store specification, section 2; proc(5).
 */
import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { native, isSystemError, type Stat } from '#native';
import { statChild } from './directories.ts';
import { mountOf, parseMounts } from './filesystem-type.ts';
import { admissionLock, initLock, isKey } from './paths.ts';
import { pause } from './turns.ts';

export interface LockHolder {
  /** 0: the process is not visible from here. */
  readonly pid: number;
  readonly command: string;
  readonly mode: 'shared' | 'exclusive';
  /** Clock ticks since boot at which the process started; tells a reused pid apart. Null when unknown. */
  readonly startTicks: string | null;
}

export type LockPurpose = 'init' | 'admission' | 'build' | 'artifact';

export interface LockState {
  /** File name below `locks/`. */
  readonly name: string;
  readonly purpose: LockPurpose;
  readonly key: string | null;
  /** `unknown`: the file is not ours to open, so it can't be told or is of no use. Never taken for free. */
  readonly state: 'free' | 'held' | 'unknown';
  /** Empty while the state is `held`: held, holder not visible (another PID namespace). */
  readonly holders: readonly LockHolder[];
  /** Processes that wait inside flock(2); those that poll are not to be seen. */
  readonly waiters: readonly LockHolder[];
}

/**
 * What a holder is called by. Its command line is read from its memory, which waits where a call into a driver holds
 * the lock of its address space: only for a process that can be killed. `name` never waits.
 */
export type Names = 'command-line' | 'name';

interface LockRow {
  readonly pid: number;
  readonly mode: 'shared' | 'exclusive';
  readonly file: string;
  readonly waiting: boolean;
}

/** The PID namespace of the machine itself: from inside it no holder is hidden. */
const initialPidNamespace = 'pid:[4026531836]';

export class LockTable {
  readonly #proc: string;
  readonly #rows = new Map<string, LockRow[]>();
  readonly #seesEveryProcess: boolean;
  readonly #names: Names;

  constructor(proc = '/proc', names: Names = 'command-line') {
    this.#proc = proc;
    this.#names = names;
    for (const row of parseLocks(readFileSync(join(proc, 'locks'), 'latin1'))) {
      const rows = this.#rows.get(row.file);
      if (rows === undefined) this.#rows.set(row.file, [row]);
      else rows.push(row);
    }
    this.#seesEveryProcess = readLink(join(proc, 'self/ns/pid')) === initialPidNamespace;
  }

  /** What the kernel says of one lock file. `device` is the mount's, as mountinfo prints it. */
  of(stat: Stat, device: string | null): { holders: LockHolder[]; waiters: LockHolder[]; certain: boolean } {
    const rows = [...new Set([deviceOf(stat.dev), device])]
      .filter((candidate) => candidate !== null)
      .flatMap((candidate) => this.#rows.get(`${candidate}:${stat.ino}`) ?? []);
    const people = (waiting: boolean): LockHolder[] =>
      rows
        .filter((row) => row.waiting === waiting)
        .map((row) => ({ pid: row.pid, mode: row.mode, ...this.#describe(row.pid) }));
    return {
      holders: people(false),
      waiters: people(true),
      certain: rows.length > 0 || this.#seesEveryProcess,
    };
  }

  #describe(pid: number): { command: string; startTicks: string | null } {
    return { command: commandOf(this.#proc, pid, this.#names), startTicks: startOf(this.#proc, pid) };
  }
}

/** The state of every lock file of a domain, in name order. */
export async function lockStates(
  root: string,
  proc = '/proc',
  names: Names = 'command-line',
): Promise<LockState[]> {
  return await withLocks(root, proc, names, async (directory, stateOf) => {
    const states: LockState[] = [];
    for (const { name, stat } of await native.listTree(directory)) {
      // Lock files are never removed, so there can be many thousand: others get their turn in between.
      await pause();
      const state = stateOf(name, stat);
      if (state !== null) states.push(state);
    }
    return states.sort((a, b) => (a.name < b.name ? -1 : 1));
  });
}

/** The same for a few lock files by name, in the order given. One that is not there is not in the answer. */
export async function namedLockStates(
  root: string,
  names: readonly string[],
  proc = '/proc',
): Promise<LockState[]> {
  return await withLocks(root, proc, 'command-line', (directory, stateOf) =>
    names.flatMap((name) => {
      const stat = statChild(directory, name);
      const state = stat === null ? null : stateOf(name, stat);
      return state === null ? [] : [state];
    }),
  );
}

async function withLocks<T>(
  root: string,
  proc: string,
  holderNames: Names,
  use: (directory: number, stateOf: (name: string, stat: Stat) => LockState | null) => Promise<T> | T,
): Promise<T> {
  const path = join(root, 'locks');
  const directory = native.open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const table = new LockTable(proc, holderNames);
    const device = mountDevice(path, proc);
    return await use(directory, (name, stat) => {
      const meaning = meaningOf(name);
      if (meaning === null) return null;
      const { holders, waiters, certain } = table.of(stat, device);
      const state = holders.length > 0 ? 'held' : stateWithoutHolder(directory, name, certain);
      return { name, ...meaning, state, holders, waiters };
    });
  } finally {
    native.close(directory);
  }
}

/** Holders of one lock file by its path; empty when nobody that can be seen holds it. */
export function holdersOfFile(path: string, proc = '/proc', names: Names = 'command-line'): LockHolder[] {
  try {
    return new LockTable(proc, names).of(native.lstat(path), mountDevice(path, proc)).holders;
  } catch {
    // Only words for a message hang on this.
    return [];
  }
}

function meaningOf(name: string): { purpose: LockPurpose; key: string | null } | null {
  if (name === initLock) return { purpose: 'init', key: null };
  if (name === admissionLock) return { purpose: 'admission', key: null };
  const key = name.slice(0, 64);
  if (!isKey(key)) return null;
  const rest = name.slice(64);
  if (rest === '.build.lock') return { purpose: 'build', key };
  return rest === '.artifact.lock' ? { purpose: 'artifact', key } : null;
}

/**
 * Only where a holder could be hidden the lock is tried, as that can make somebody's attempt without waiting
 * fail. A file that we may not even open is not free for us, whoever holds it.
 */
function stateWithoutHolder(directory: number, name: string, certain: boolean): LockState['state'] {
  let fd: number;
  try {
    fd = native.openat(directory, name, constants.O_RDWR | constants.O_NONBLOCK);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return error.code === 'ENOENT' ? 'free' : 'unknown';
  }
  try {
    return certain || native.flockTry(fd, true) ? 'free' : 'held';
  } finally {
    native.close(fd);
  }
}

/** Rows of whole-file flock locks: `N: [->] FLOCK ADVISORY READ|WRITE pid major:minor:inode 0 EOF`. */
export function parseLocks(text: string): LockRow[] {
  const rows: LockRow[] = [];
  for (const line of text.split('\n')) {
    const fields = line.trim().split(/\s+/);
    const waiting = fields[1] === '->';
    const [kind, , mode, pid, file] = fields.slice(waiting ? 2 : 1);
    if (kind !== 'FLOCK' || pid === undefined || file === undefined) continue;
    const [major, minor, inode] = file.split(':');
    if (major === undefined || minor === undefined || inode === undefined) continue;
    rows.push({
      pid: Math.max(0, Number(pid)),
      mode: mode === 'WRITE' ? 'exclusive' : 'shared',
      file: `${Number.parseInt(major, 16)}:${Number.parseInt(minor, 16)}:${inode}`,
      waiting,
    });
  }
  return rows;
}

/** `major:minor` of a st_dev, by the kernel's encoding. */
function deviceOf(device: bigint): string {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n);
  const minor = (device & 0xffn) | ((device >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}

function mountDevice(path: string, proc: string): string | null {
  try {
    return mountOf(path, parseMounts(readFileSync(join(proc, 'self/mountinfo'), 'utf8')))?.device ?? null;
  } catch {
    return null;
  }
}

/** The command line lies in the process's own memory, and the name alone in the kernel's. */
function commandOf(proc: string, pid: number, names: Names): string {
  const line =
    names === 'name' || waitsInKernel(proc, pid)
      ? undefined
      : readText(join(proc, String(pid), 'cmdline'))
          ?.replaceAll('\0', ' ')
          .trim();
  if (line !== undefined && line !== '') return line.slice(0, 500);
  return readText(join(proc, String(pid), 'comm'))?.trim() ?? 'not visible';
}

/** One of its threads is in state D: whoever reads the process's memory could have to wait with it. */
function waitsInKernel(proc: string, pid: number): boolean {
  const tasks = join(proc, String(pid), 'task');
  return namesIn(tasks).some((tid) => {
    const stat = readText(join(tasks, tid, 'stat'));
    return stat?.slice(stat.lastIndexOf(')') + 2).startsWith('D') ?? false;
  });
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function startOf(proc: string, pid: number): string | null {
  const stat = readText(join(proc, String(pid), 'stat'));
  // The command name in field 2 can hold blanks and parentheses; fields are counted behind its end.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function readLink(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}
