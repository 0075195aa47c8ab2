/** A person's desk for one spec: a folder that is their whole home, the real host in it, and what they do there. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, type Page } from '@playwright/test';
import { RealHost } from './real-host.ts';

export const mib = 1024 ** 2;
const launcher = resolve(import.meta.dirname, '../../src/cli/weightroom.mjs');

export class RealDesk {
  readonly folder: string;
  #host: RealHost;

  private constructor(folder: string, host: RealHost) {
    this.folder = folder;
    this.#host = host;
  }

  static async start(): Promise<RealDesk> {
    const folder = await mkdtemp(join(tmpdir(), 'weightroom-e2e-'));
    return new RealDesk(folder, await RealHost.start(folder));
  }

  get url(): string {
    return this.#host.url;
  }

  async stop(): Promise<void> {
    await this.#host.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  async kill(): Promise<void> {
    await this.#host.stop('SIGKILL');
  }

  /** On the same port, as somebody does who starts it again by hand. */
  async startAgain(): Promise<void> {
    this.#host = await RealHost.start(this.folder, Number(new URL(this.url).port));
  }

  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** The command line, in another process and with the same folders, to its end. */
  async weightroom(...words: string[]): Promise<void> {
    await promisify(execFile)(process.execPath, [launcher, ...words], { env: this.#host.env });
  }

  startWeightroom(...words: string[]): ChildProcess {
    return spawn(process.execPath, [launcher, ...words], { env: this.#host.env, stdio: 'ignore' });
  }

  async checkpoint(name: string, bytes: number): Promise<string> {
    return await makeCheckpoint(this.path(name), bytes);
  }

  /** Serialized, by its form; ends on its page. */
  async createStore(page: Page, limit = '8 GiB'): Promise<string> {
    const root = this.path('store');
    await page.goto(this.url);
    await page.getByRole('link', { name: 'Create a store' }).click();
    await page.getByLabel('Folder').fill(root);
    await page.getByLabel('Limit (required)').fill(limit);
    await page.getByRole('button', { name: 'Create store' }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
    return root;
  }
}

/** Goes to another page of the same document, as a link in it does. */
export async function goTo(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
}

export async function lookInto(page: Page, checkpoint: string): Promise<void> {
  await goTo(page, '#/builds/new');
  await page.getByLabel('Checkpoint folder').fill(checkpoint);
  await page.getByRole('button', { name: 'Look into it' }).click();
}

/** Ends on Builds, with the build under way. */
export async function startBuild(page: Page, checkpoint: string): Promise<void> {
  await lookInto(page, checkpoint);
  await expect(page.getByText('8 tensors')).toBeVisible();
  await page.getByRole('button', { name: 'Start build' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Builds' })).toBeVisible();
}

/** Zeros, and the file sparse: as much to read, hash and write as real weights, and made at once. */
export async function makeCheckpoint(path: string, bytes: number): Promise<string> {
  const tensors = 8;
  const each = bytes / tensors;
  const header = Object.fromEntries(
    Array.from({ length: tensors }, (_, n) => [
      `model.layers.${n}.weight`,
      { dtype: 'BF16', shape: [each / 2], data_offsets: [n * each, (n + 1) * each] },
    ]),
  );
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  await mkdir(path);
  const file = await open(join(path, 'model.safetensors'), 'w');
  await file.write(Buffer.concat([length, text]));
  await file.truncate(8 + text.length + bytes);
  await file.close();
  return path;
}
