/** The desktop app for a spec: `electron/main.ts` over the stand-in, in a process of its own, with its own folders. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium, expect, type Browser, type Page } from '@playwright/test';
import { environmentBelow } from '../e2e/real-host.ts';
import type { FromStandIn, Order, Recorded } from './protocol.ts';

const main = resolve(import.meta.dirname, '../../electron/main.ts');
const register = resolve(import.meta.dirname, 'register.ts');

export interface DesktopOptions {
  /** Of an earlier start; without it a new one, which `stop` removes. */
  readonly folder?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export class Desktop {
  readonly folder: string;
  readonly recorded: Recorded[] = [];
  readonly #child: ChildProcess;
  readonly #replies = new Map<number, (message: FromStandIn & { type: 'done' }) => void>();
  #nextId = 0;
  #browser: Browser | null = null;
  #port: ((port: number) => void) | null = null;

  private constructor(folder: string, child: ChildProcess) {
    this.folder = folder;
    this.#child = child;
    child.on('message', (message: FromStandIn) => this.#take(message));
  }

  static async start({ folder, args = [], env = {} }: DesktopOptions = {}): Promise<Desktop> {
    const own = folder ?? (await mkdtemp(join(tmpdir(), 'weightroom-desktop-')));
    const child = fork(main, args, {
      execArgv: ['--import', register],
      env: { ...(await environmentBelow(own)), ...env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    return new Desktop(own, child);
  }

  /** The window's page, once it is loaded. */
  async page(): Promise<Page> {
    const port = await new Promise<number>((found) => {
      this.#port = found;
    });
    this.#browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
    const page = this.#browser.contexts()[0]?.pages()[0];
    if (page === undefined) throw new Error('The window has no page.');
    return page;
  }

  async order<T = unknown>(order: Order): Promise<T> {
    const id = this.#nextId++;
    const reply = new Promise<FromStandIn & { type: 'done' }>((done) => this.#replies.set(id, done));
    this.#child.send({ id, order });
    const { value, error } = await reply;
    if (error !== undefined) throw new Error(error);
    return value as T;
  }

  /** What the app asked Electron for, by the call's name. */
  calls(call: string): Recorded[] {
    return this.recorded.filter((what) => what.call === call);
  }

  /** The first such call, waited for. */
  async call(call: string): Promise<Recorded> {
    await expect.poll(() => this.calls(call).length).toBeGreaterThan(0);
    return this.calls(call)[0] as Recorded;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async ended(): Promise<number | null> {
    if (this.isRunning) await once(this.#child, 'exit');
    return this.#child.exitCode;
  }

  /** As the session's end does. */
  async quit(): Promise<void> {
    await this.#browser?.close();
    if (this.isRunning) this.#child.kill('SIGTERM');
    await this.ended();
  }

  async stop(): Promise<void> {
    await this.quit();
    await rm(this.folder, { recursive: true, force: true });
  }

  #take(message: FromStandIn): void {
    if (message.type === 'recorded') this.recorded.push(message.what);
    if (message.type === 'loaded') this.#port?.(message.debuggingPort);
    if (message.type === 'done') {
      this.#replies.get(message.id)?.(message);
      this.#replies.delete(message.id);
    }
  }
}
