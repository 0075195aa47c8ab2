/**
 * What vLLM-Omni workers log about registration, line by line, several workers in one log kept apart. Prefixes
 * differ (level, time, file, `(Worker pid=N)`, a rank) and are tolerated: a line is known by its own words.
 * A log of an older version has no range lines; what can be told is still told.
 * Source: registration specification, section 1.
 */

export interface LoggedRange {
  readonly region: number;
  readonly regions: number;
  readonly bytes: number;
  readonly done: boolean;
  readonly seconds: number | null;
}

export interface WorkerState {
  /** As the log names it; empty where it names nobody. */
  readonly worker: string;
  readonly pid: number | null;
  readonly state: 'unknown' | 'registering' | 'registered' | 'staging' | 'failed' | 'unregistered';
  readonly regions: number | null;
  readonly lastEntered: LoggedRange | null;
  readonly registeredBytes: number;
  readonly loggedAt: string | null;
  readonly readAtMs: number | null;
  readonly reason: string | null;
}

type Change = Partial<Omit<WorkerState, 'worker' | 'pid'>>;
interface Pattern {
  readonly words: RegExp;
  readonly change: (match: RegExpExecArray, before: WorkerState) => Change;
}

const gibibyte = 1024 ** 3;

const patterns: readonly Pattern[] = [
  {
    words: /Registering HWR host range (\d+)\/(\d+): (\d+) bytes/,
    change: ([, region, regions, bytes]) => ({
      state: 'registering',
      regions: Number(regions),
      reason: null,
      lastEntered: {
        region: Number(region),
        regions: Number(regions),
        bytes: Number(bytes),
        done: false,
        seconds: null,
      },
    }),
  },
  {
    words: /Registered HWR host range (\d+)\/(\d+) in ([\d.]+) s/,
    change: ([, region, regions, seconds], { lastEntered, registeredBytes }) => {
      const same = lastEntered?.region === Number(region) && !lastEntered.done;
      const bytes = same ? lastEntered.bytes : 0;
      return {
        state: 'registering',
        regions: Number(regions),
        registeredBytes: registeredBytes + bytes,
        lastEntered: {
          region: Number(region),
          regions: Number(regions),
          bytes,
          done: true,
          seconds: Number(seconds),
        },
      };
    },
  },
  {
    words: /Registered ([\d.]+) GiB of HWR mmap in (\d+) range\(s\) for direct H2D/,
    change: ([, size, regions]) => ({
      state: 'registered',
      regions: Number(regions),
      registeredBytes: Math.round(Number(size) * gibibyte),
      reason: null,
    }),
  },
  {
    words: /HWR registered direct H2D unavailable \((.*)\); using bounded host staging/,
    change: ([, reason]) => ({ state: 'staging', reason: reason ?? null }),
  },
  {
    words: /(HWR mmap registration (?:disabled by .*|found no mapped sources)); using bounded host staging/,
    change: ([, reason]) => ({ state: 'staging', reason: reason ?? null }),
  },
  {
    words: /HWR mmap registration rollback failed/,
    change: ([reason]) => ({ state: 'failed', reason: reason ?? null }),
  },
  {
    words: /HWR mmap unregistration failed; retaining lease mappings for retry.*/,
    change: ([reason]) => ({ state: 'failed', reason: reason ?? null }),
  },
  {
    words: /Unregistered HWR mmap ranges/,
    change: () => ({ state: 'unregistered', registeredBytes: 0 }),
  },
];

/** Every line that matters has these letters: what a fast reader looks for. */
export const tellingWord = 'HWR';

const named = /\(([^()]*?\bpid=(\d+)[^()]*)\)/;
const ranked = /\[?\b((?:local[ _])?rank[ _=:]?\d+|TP\d+|Worker[ _]?\d+)\b\]?/i;
const timed = /\b(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?|\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)/;

export class WorkerLog {
  readonly #workers = new Map<string, WorkerState>();

  /** In the order in which they first spoke. */
  get workers(): WorkerState[] {
    return [...this.#workers.values()];
  }

  /** True where the line told something. `readAtMs`: null for a line that stood there before anybody read. */
  read(line: string, readAtMs: number | null): boolean {
    for (const { words, change } of patterns) {
      const match = words.exec(line);
      if (match === null) continue;
      const { worker, pid } = speakerOf(line.slice(0, match.index));
      const before = this.#workers.get(worker) ?? { ...silent, worker, pid };
      const loggedAt = timed.exec(line.slice(0, match.index))?.[1] ?? before.loggedAt;
      this.#workers.set(worker, { ...before, ...change(match, before), loggedAt, readAtMs });
      return true;
    }
    return false;
  }
}

function speakerOf(prefix: string): { worker: string; pid: number | null } {
  const process = named.exec(prefix);
  if (process !== null) return { worker: (process[1] ?? '').trim(), pid: Number(process[2]) };
  return { worker: ranked.exec(prefix)?.[1]?.toLowerCase() ?? '', pid: null };
}

const silent: Omit<WorkerState, 'worker' | 'pid'> = {
  state: 'unknown',
  regions: null,
  lastEntered: null,
  registeredBytes: 0,
  loggedAt: null,
  readAtMs: null,
  reason: null,
};
