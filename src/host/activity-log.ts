/**
 * What happened: in memory for the pages, and as lines of JSON below the XDG state folder for the next start.
 *
 * Several processes append to the one file, each line with one write. It is bounded by setting it aside: past
 * its limit it becomes the older one of two files, in one step, and nothing is rewritten.
 */
import { appendFile, readFile, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { activityEntry, type ActivityEntry } from '../contract/app-schemas.ts';
import { makeFolders } from '../store/directories.ts';
import { privateFile, privateFolder } from './durable-file.ts';
import { Topic } from './topic.ts';

const maxFileBytes = 1024 ** 2;
const keptInMemory = 1000;

export type Happening = Pick<ActivityEntry, 'kind' | 'message'> &
  Partial<Pick<ActivityEntry, 'severity' | 'root' | 'key' | 'buildId' | 'failure'>>;

export class ActivityLog {
  readonly added = new Topic<ActivityEntry>();
  readonly #path: string;
  readonly #now: () => number;
  /** The oldest first. */
  #entries: ActivityEntry[] = [];
  #dropped = false;
  #count = 0;
  /** Lines go out one after another, in order. */
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, now: () => number = Date.now) {
    this.#path = path;
    this.#now = now;
  }

  /** Takes in what earlier processes wrote. Lines that can't be read are passed over. */
  async open(): Promise<void> {
    const earlier: ActivityEntry[] = [];
    for (const path of [this.#olderPath, this.#path]) {
      const text = await readFile(path, 'utf8').catch(() => '');
      earlier.push(...text.split('\n').flatMap(parseLine));
    }
    this.#entries = [...earlier, ...this.#entries];
    this.#bound();
  }

  add(happening: Happening): ActivityEntry {
    this.#count += 1;
    const atMs = this.#now();
    const entry: ActivityEntry = {
      severity: 'information',
      root: null,
      key: null,
      buildId: null,
      failure: null,
      ...happening,
      id: `${atMs}-${process.pid}-${this.#count}`,
      atMs,
    };
    this.#entries.push(entry);
    this.#bound();
    this.#writing = this.#writing.then(async () => await this.#write(entry));
    this.added.publish(entry);
    return entry;
  }

  /** The newest first. */
  newest(limit: number): { entries: ActivityEntry[]; more: boolean } {
    const entries = this.#entries.slice(-limit).reverse();
    return { entries, more: this.#dropped || this.#entries.length > limit };
  }

  /** Resolves when every line is out. */
  async close(): Promise<void> {
    await this.#writing;
  }

  get #olderPath(): string {
    return `${this.#path}.older`;
  }

  #bound(): void {
    if (this.#entries.length <= keptInMemory) return;
    this.#entries = this.#entries.slice(-keptInMemory);
    this.#dropped = true;
  }

  async #write(entry: ActivityEntry): Promise<void> {
    try {
      makeFolders(dirname(this.#path), privateFolder);
      const size = await stat(this.#path).then(
        ({ size: bytes }) => bytes,
        () => 0,
      );
      if (size > maxFileBytes) await rename(this.#path, this.#olderPath);
      await appendFile(this.#path, `${JSON.stringify(entry)}\n`, { mode: privateFile });
    } catch {
      // A full or read-only disk must not keep anything from happening; the entry is in memory.
    }
  }
}

function parseLine(line: string): ActivityEntry[] {
  if (line === '') return [];
  try {
    const parsed = activityEntry.safeParse(JSON.parse(line));
    return parsed.success ? [parsed.data] : [];
  } catch {
    return [];
  }
}
