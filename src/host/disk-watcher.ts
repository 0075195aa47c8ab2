/**
 * Notices that something changed in a store: the kernel's notices of the directories in which entries come and
 * go, and, as a net below them, a slow comparison of the directories themselves. The net also catches what no
 * notice tells: a root that was unmounted, replaced, or came back, and file systems and users without notices.
 *
 * It holds nothing open, so a store's disk can be unmounted.
 */
import { watch, type FSWatcher } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { domainFile } from '../store/paths.ts';

const watchedDirectories = ['', 'artifacts', 'deny', 'quarantine', 'tmp'] as const;
/** Lock files come and go with every build and lookup; only their folder's identity counts. */
const comparedPaths = [...watchedDirectories, domainFile] as const;

export interface DiskWatcherOptions {
  readonly onChange: () => void;
  readonly pollMs: number;
  /** Asked at each poll: true where a change is expected that shows in no directory, as a file that grows. */
  readonly isRestless: () => boolean;
}

export class DiskWatcher {
  readonly #root: string;
  readonly #options: DiskWatcherOptions;
  readonly #timer: NodeJS.Timeout;
  #watchers: FSWatcher[] = [];
  #seen: string | null = null;
  /** Identities of the directories that the notices are for; other ones need new notices. */
  #watched: string | null = null;
  #isComparing = false;
  #open = true;

  constructor(root: string, options: DiskWatcherOptions) {
    this.#root = root;
    this.#options = options;
    this.#timer = setInterval(() => void this.#poll(), options.pollMs);
    this.#timer.unref();
  }

  /** Resolves when notices are set up, as far as they can be: whoever looks after that misses nothing. */
  async start(): Promise<void> {
    const found = await this.#compare();
    this.#seen = found.signature;
    this.#watch(found.identities);
  }

  close(): void {
    this.#open = false;
    clearInterval(this.#timer);
    this.#unwatch();
  }

  async #poll(): Promise<void> {
    if (this.#isComparing) return;
    this.#isComparing = true;
    try {
      const { signature, identities } = await this.#compare();
      if (!this.#open) return;
      if (identities !== this.#watched) this.#watch(identities);
      const isChanged = signature !== this.#seen;
      this.#seen = signature;
      if (isChanged || this.#options.isRestless()) this.#options.onChange();
    } finally {
      this.#isComparing = false;
    }
  }

  async #compare(): Promise<{ signature: string; identities: string }> {
    const stats = await Promise.all(
      comparedPaths.map(
        async (name) => await stat(join(this.#root, name), { bigint: true }).catch(() => null),
      ),
    );
    const identity = (found: (typeof stats)[number]): string =>
      found === null ? '-' : `${found.dev}:${found.ino}`;
    return {
      identities: stats.map(identity).join(' '),
      signature: stats
        .map((found) => `${identity(found)} ${found?.mtimeNs ?? ''} ${found?.ctimeNs ?? ''}`)
        .join('\n'),
    };
  }

  #watch(identities: string): void {
    this.#unwatch();
    if (!this.#open) return;
    this.#watched = identities;
    for (const name of watchedDirectories) {
      try {
        const watcher = watch(join(this.#root, name), { persistent: false }, this.#options.onChange);
        // The directory went, or notices ran out: the poll is there for that.
        watcher.on('error', () => watcher.close());
        this.#watchers.push(watcher);
      } catch {
        // Not there, or no notices left (fs.inotify.max_user_watches): the poll goes on.
      }
    }
  }

  #unwatch(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }
}
