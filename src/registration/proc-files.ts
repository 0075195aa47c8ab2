/** Small reads below /proc and the like. What is not there or may not be read is null: that is evidence too. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

export function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** Clock ticks since boot at which a process started; null: there is no such process, or none that still runs. */
export function startTicksOf(pid: number, proc = '/proc'): string | null {
  const fields = statFields(pid, proc);
  if (fields === null || fields[0] === 'X') return null;
  // A zombie has let go of everything, unless it is only the first thread that died.
  const threads = fields[0] === 'Z' ? namesIn(join(proc, String(pid), 'task')).length : 1;
  return fields[0] === 'Z' && threads < 2 ? null : (fields[19] ?? null);
}

/** Of /proc/PID/stat, from the state on. The name before can hold blanks and parentheses. */
export function statFields(pid: number, proc = '/proc'): string[] | null {
  const stat = readText(join(proc, String(pid), 'stat'));
  return stat === null
    ? null
    : stat
        .slice(stat.lastIndexOf(')') + 2)
        .trim()
        .split(' ');
}

/** The words of a command line; empty for a kernel thread or a process that is gone. */
export function commandLineOf(pid: number, proc = '/proc'): string[] {
  const words = readText(join(proc, String(pid), 'cmdline'))?.split('\0') ?? [];
  while (words.at(-1) === '') words.pop();
  return words;
}

/** `Name:  value` lines, as in status, meminfo and the like. */
export function fieldsOf(text: string | null): ReadonlyMap<string, string> {
  const lines = text?.split('\n') ?? [];
  return new Map(
    lines.flatMap((line): [string, string][] => {
      const at = line.indexOf(':');
      return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1).trim()]];
    }),
  );
}

/** `123 kB` in bytes. */
export function kibibytes(value: string | undefined): number | null {
  const number = Number(value?.split(' ')[0]);
  return value === undefined || !Number.isFinite(number) ? null : number * 1024;
}
