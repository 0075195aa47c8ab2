/**
 * One browser host per person and machine: where it is, in a file that only they can read, because the address
 * has the token in it. A second start finds the first and hands out its address.
 *
 * What the file says is believed only while the process that wrote it runs: the same number with the same
 * start, so that a number that was given to another process is not taken for it.
 */
import { readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { z } from 'zod';
import { guarded, replaceFile } from './durable-file.ts';

const instanceSchema = z.object({
  pid: z.int().positive(),
  startTicks: z.string(),
  port: z.int().min(1).max(65535),
  url: z.string(),
});
export type BrowserInstance = z.infer<typeof instanceSchema>;

export type Claimed<T> =
  | { readonly kind: 'first'; readonly host: T }
  | { readonly kind: 'other'; readonly instance: BrowserInstance };

/** Starts a host unless one runs, and records it, so that of two at once one becomes the first. One that can't be recorded is stopped. */
export async function claimInstance<T extends { readonly port: number; readonly url: string }>(
  path: string,
  start: () => Promise<T>,
  stop: (host: T) => Promise<void>,
): Promise<Claimed<T>> {
  return await guarded(path, async (): Promise<Claimed<T>> => {
    const instance = await runningInstance(path);
    if (instance !== null) return { kind: 'other', instance };
    const host = await start();
    const { pid } = process;
    const own: BrowserInstance = { pid, startTicks: startTicksOf(pid) ?? '', port: host.port, url: host.url };
    try {
      await replaceFile(path, `${JSON.stringify(own)}\n`);
    } catch (error) {
      await stop(host);
      throw error;
    }
    return { kind: 'first', host };
  });
}

/** Takes the record away if it is this process's. */
export async function releaseInstance(path: string): Promise<void> {
  await guarded(path, async () => {
    const instance = await recordedInstance(path);
    if (instance?.pid === process.pid) await rm(path, { force: true });
  });
}

/** Null where none runs. */
export async function runningInstance(path: string): Promise<BrowserInstance | null> {
  const instance = await recordedInstance(path);
  if (instance === null || startTicksOf(instance.pid) !== instance.startTicks) return null;
  return instance;
}

async function recordedInstance(path: string): Promise<BrowserInstance | null> {
  try {
    const parsed = instanceSchema.safeParse(JSON.parse(await readFile(path, 'utf8')));
    return parsed.success ? parsed.data : null;
  } catch {
    // Not there, or half of something: nobody's record.
    return null;
  }
}

/** Clock ticks since boot at which a process started; null where there is no such process. */
function startTicksOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The command name in field 2 can hold blanks and parentheses; fields are counted behind its end.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
  } catch {
    return null;
  }
}
