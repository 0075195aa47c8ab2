/**
 * The settings: a small JSON document below the XDG configuration folder, which the desktop app, the browser
 * host and an editor may all change.
 *
 * Every change reads the file anew under the guard, so no process undoes another's. A file that can't be read
 * as settings is set aside under a name with the time in it, reported, and the defaults are used: nobody's
 * text is thrown away. A file from a newer version keeps the fields that this one does not know.
 */
import { readFile, rename } from 'node:fs/promises';
import { watch, type FSWatcher } from 'node:fs';
import { basename, dirname } from 'node:path';
import { isSystemError } from '#native';
import { settings as settingsSchema, type Settings } from '../contract/app-schemas.ts';
import { failure, FailureError } from '../contract/failure.ts';
import { reasonOf } from '../store/faults.ts';
import { guarded, isStillGuarded, replaceFile } from './durable-file.ts';
import { Topic } from './topic.ts';

export const defaultSettings: Settings = { theme: 'system', stores: [] };

export interface SettingsReport {
  /** Called with words when a broken file was set aside, or the file can't be read. */
  readonly onProblem: (message: string) => void;
}

/** What the file says, and whatever else stands in it. */
interface Document {
  readonly settings: Settings;
  readonly unknown: Readonly<Record<string, unknown>>;
}

export class SettingsFile {
  readonly path: string;
  /** Publishes the settings whenever they differ from before, whoever changed them. */
  readonly changed = new Topic<Settings>();
  readonly #onProblem: (message: string) => void;
  #current: Settings = defaultSettings;
  #watcher: FSWatcher | null = null;
  #reading: Promise<void> = Promise.resolve();
  #isReadingDue = false;

  constructor(path: string, { onProblem }: SettingsReport) {
    this.path = path;
    this.#onProblem = onProblem;
  }

  get current(): Settings {
    return this.#current;
  }

  /** Reads the file and, from then on, every change that another process makes to it. */
  async open(): Promise<void> {
    const document = await this.#read();
    if (document === 'broken') await this.#startAnew();
    else this.#accept(document.settings);
    this.#watch();
  }

  /** Where the broken file can't be put aside the defaults are used all the same. */
  async #startAnew(): Promise<void> {
    try {
      await this.update((settings) => settings);
    } catch (error) {
      if (!(error instanceof FailureError)) throw error;
      this.#onProblem(
        `The settings in ${this.path} could not be understood, and defaults are used. ${error.failure.message}`,
      );
    }
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  /** Throws FailureError where the file can't be written. */
  async update(change: (settings: Settings) => Settings): Promise<Settings> {
    try {
      return await guarded(this.path, async () => {
        let document = await this.#read();
        if (document === 'broken') document = await this.#setAside();
        const settings = change(document.settings);
        const text = JSON.stringify({ ...document.unknown, ...settings }, null, 2);
        await replaceFile(this.path, `${text}\n`);
        this.#accept(settings);
        return settings;
      });
    } catch (error) {
      if (!isSystemError(error) && !isStillGuarded(error)) throw error;
      throw new FailureError(this.#unwritable(error));
    }
  }

  async #read(): Promise<Document | 'broken'> {
    let text: string;
    try {
      text = await readFile(this.path, 'utf8');
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (error.code !== 'ENOENT') {
        this.#onProblem(
          `The settings in ${this.path} cannot be read: ${reasonOf(error)}. Defaults are used.`,
        );
      }
      return { settings: defaultSettings, unknown: {} };
    }
    return parse(text) ?? 'broken';
  }

  /** Under the guard. */
  async #setAside(): Promise<Document> {
    const aside = `${this.path}.broken-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`;
    await rename(this.path, aside);
    this.#onProblem(
      `The settings in ${this.path} could not be understood. The file is kept as ${basename(aside)} beside it, and defaults are used. Repair it and put it back, or delete it.`,
    );
    return { settings: defaultSettings, unknown: {} };
  }

  #accept(settings: Settings): void {
    const same = JSON.stringify(settings) === JSON.stringify(this.#current);
    this.#current = settings;
    if (!same) this.changed.publish(settings);
  }

  #watch(): void {
    try {
      this.#watcher = watch(dirname(this.path), { persistent: false }, (_event, name) => {
        if (name === null || name === basename(this.path)) this.#readAgain();
      });
      this.#watcher.on('error', () => this.close());
    } catch {
      // Without a folder or without watches left, another process's changes show at the next start.
    }
  }

  #readAgain(): void {
    if (this.#isReadingDue) return;
    this.#isReadingDue = true;
    this.#reading = this.#reading.then(async () => {
      this.#isReadingDue = false;
      const document = await this.#read();
      // An editor may be half-way through: what is broken is left alone until somebody wants to write.
      if (document !== 'broken') this.#accept(document.settings);
    });
  }

  #unwritable(error: Error): ReturnType<typeof failure> {
    const why = isSystemError(error) ? reasonOf(error) : 'another process keeps it locked';
    return failure(
      'configuration',
      'invalid_config',
      `The settings in ${this.path} cannot be saved: ${why}.`,
      {
        retryable: true,
        details: { path: this.path },
      },
    );
  }
}

/** Null for what are no settings. Fields that are missing have their defaults. */
function parse(text: string): Document | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const parsed = settingsSchema.safeParse({ ...defaultSettings, ...value });
  return parsed.success ? { settings: parsed.data, unknown: value as Record<string, unknown> } : null;
}
