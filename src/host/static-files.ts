/**
 * The built pages, held in memory. Only what was found below the folder when it was read can be asked for, by
 * its exact name: there is no path to go astray with.
 */
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { isSystemError } from '#native';

export interface StaticFile {
  readonly body: Buffer;
  readonly contentType: string;
  /** Its name changes with its content. */
  readonly isImmutable: boolean;
}

const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};

/** Vite's form: `assets/name-<hash>.js`. */
const hashedName = /^\/assets\/.+-[\w-]{8}\.\w+$/;

export class StaticFiles {
  readonly #folder: string;
  #files: ReadonlyMap<string, StaticFile> = new Map();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Takes in what is there now. A folder that is not there holds nothing. */
  async read(): Promise<void> {
    const files = new Map<string, StaticFile>();
    for (const path of await filesBelow(this.#folder)) {
      const contentType = contentTypes[extname(path)];
      // Source maps and whatever else lies there are not for serving.
      if (contentType === undefined) continue;
      const name = `/${relative(this.#folder, path).split(sep).join('/')}`;
      const file = { body: await readFile(path), contentType, isImmutable: hashedName.test(name) };
      files.set(name, file);
      if (name === '/index.html') files.set('/', file);
    }
    this.#files = files;
  }

  /** There are pages to show. */
  get isBuilt(): boolean {
    return this.#files.has('/');
  }

  get(path: string): StaticFile | undefined {
    return this.#files.get(path);
  }
}

async function filesBelow(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    // A link could lead anywhere.
    return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return [];
    throw error;
  }
}
