/**
 * Run records: one append-only file of JSON lines for each probe and registration, below the XDG state directory. A
 * child writes an event there before it enters a call, so the last boundary is known even if it never answers
 * again, and every program of this user can see what another one started and what a crash left behind.
 */
import { readdirSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { constants } from 'node:fs';
import { join } from 'node:path';
import { native, isSystemError } from '#native';
import { makeFolders } from '../store/directories.ts';
import { startTicksOf } from './proc-files.ts';
import type { RecordHead, RegistrarEvent } from './registrar-protocol.ts';

/** Records of what is over beyond this are removed, the oldest first. */
const mostKept = 100;
const suffix = '.run.jsonl';

export class RunFolder {
  readonly path: string;

  /** `state` is this program's own state directory. */
  constructor(state: string) {
    this.path = join(state, 'registration');
  }

  get admission(): string {
    return join(this.path, 'admission');
  }

  recordPath(session: string): string {
    return join(this.path, `${session}${suffix}`);
  }

  /** Makes the record of a session that begins. Throws a SystemError where that can't be written. */
  begin(head: RecordHead): string {
    makeFolders(this.admission, 0o700);
    this.#dropOldest();
    const path = this.recordPath(head.session);
    const record = new RecordWriter(path);
    record.write(head);
    record.close();
    return path;
  }

  remove(session: string): void {
    try {
      unlinkSync(this.recordPath(session));
    } catch (error) {
      if (!isSystemError(error) || error.code !== 'ENOENT') throw error;
    }
  }

  /** Every record that can be read, the oldest first. */
  list(): RunRecord[] {
    return this.#names().flatMap((name) => this.read(name.slice(0, -suffix.length)) ?? []);
  }

  /** Those whose process is there. The others are not even parsed: there can be many, and long ones. */
  live(proc = '/proc'): RunRecord[] {
    return this.#names().flatMap((name) => {
      const text = this.#text(name.slice(0, -suffix.length));
      const at = text?.lastIndexOf('{"event":"started"') ?? -1;
      if (text === null || at < 0) return [];
      const started = parseRecord(`{"session":""}\n${text.slice(at, text.indexOf('\n', at))}`);
      if (started === null || !isAlive(started, proc)) return [];
      return parseRecord(text) ?? [];
    });
  }

  read(session: string): RunRecord | null {
    const text = this.#text(session);
    return text === null ? null : parseRecord(text);
  }

  #text(session: string): string | null {
    if (!/^[\w-]{1,64}$/.test(session)) return null;
    try {
      return readFileSync(this.recordPath(session), 'utf8');
    } catch {
      return null;
    }
  }

  #names(): string[] {
    try {
      return readdirSync(this.path)
        .filter((name) => name.endsWith(suffix))
        .sort();
    } catch {
      return [];
    }
  }

  #dropOldest(): void {
    for (const name of this.#names().slice(0, -mostKept)) {
      const session = name.slice(0, -suffix.length);
      const record = this.read(session);
      if (record === null || !isAlive(record)) this.remove(session);
    }
  }
}

/** Names sort by time. */
export function newSession(now: number): string {
  const time = new Date(now).toISOString().replaceAll(/[-:]/g, '').slice(0, 15);
  return `${time}-${Math.floor(Math.random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')}`;
}

/** Appends whole lines, at once: nothing is buffered in a process that may never run again. */
export class RecordWriter {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = native.open(
      path,
      constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW,
      0o600,
    );
  }

  write(line: RecordHead | RegistrarEvent): void {
    writeSync(this.#fd, `${JSON.stringify(line)}\n`);
  }

  close(): void {
    native.close(this.#fd);
  }
}

export interface RunRecord {
  readonly head: RecordHead;
  readonly events: readonly RegistrarEvent[];
}

/** Null for what is no record. A last line that is not whole is left out. */
export function parseRecord(text: string): RunRecord | null {
  const [head, ...events] = text.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as unknown];
    } catch {
      return [];
    }
  });
  if (typeof head !== 'object' || head === null || !('session' in head)) return null;
  return { head: head as RecordHead, events: events as RegistrarEvent[] };
}

export function processOf({ events }: RunRecord): { pid: number; startTicks: string | null } | null {
  const started = events.findLast((event) => event.event === 'started');
  return started === undefined ? null : { pid: started.pid, startTicks: started.startTicks };
}

/** Its process is there, and is the one that wrote it. */
export function isAlive(record: RunRecord, proc = '/proc'): boolean {
  const child = processOf(record);
  if (child === null) return false;
  const ticks = startTicksOf(child.pid, proc);
  return ticks !== null && (child.startTicks === null || child.startTicks === ticks);
}

/** Since when it has been inside a call that has not come back, in the machine's monotonic time; null: it is in none. */
export function insideSinceMs({ events }: RunRecord): number | null {
  const last = events.at(-1);
  return last?.event === 'entering' || last?.event === 'step' ? last.monotonicMs : null;
}
