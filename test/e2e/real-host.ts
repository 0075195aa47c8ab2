/** `weightroom serve`, as a person would start it, with every folder of its own below one that the test gives. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const launcher = resolve(import.meta.dirname, '../../src/cli/weightroom.mjs');

/** This process's environment with every folder of a person's below `folder`; they are made. */
export async function environmentBelow(folder: string): Promise<NodeJS.ProcessEnv> {
  const env: NodeJS.ProcessEnv = { ...process.env, HOME: folder };
  for (const [name, below] of Object.entries({
    XDG_CONFIG_HOME: 'config',
    XDG_STATE_HOME: 'state',
    XDG_CACHE_HOME: 'cache',
    XDG_DATA_HOME: 'data',
    XDG_RUNTIME_DIR: 'run',
  })) {
    env[name] = join(folder, below);
    await mkdir(join(folder, below), { recursive: true, mode: 0o700 });
  }
  return env;
}

export class RealHost {
  readonly url: string;
  /** For other commands beside it. */
  readonly env: NodeJS.ProcessEnv;
  readonly #child: ChildProcess;

  private constructor(url: string, env: NodeJS.ProcessEnv, child: ChildProcess) {
    this.url = url;
    this.env = env;
    this.#child = child;
  }

  static async start(folder: string, port = 0): Promise<RealHost> {
    const env = await environmentBelow(folder);
    const child = spawn(process.execPath, [launcher, 'serve', '--port', String(port), '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    for await (const line of createInterface({ input: child.stdout })) {
      text += `${line}\n`;
      const url = /http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]+/.exec(text)?.[0];
      if (url !== undefined) return new RealHost(url, env, child);
    }
    throw new Error(`weightroom serve ended without an address: ${text}`);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }
}
