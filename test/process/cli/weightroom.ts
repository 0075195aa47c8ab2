/**
 * The command line as people have it: the launcher in a process of its own, with fresh XDG folders, and a
 * checkpoint and a store to work on.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import {
  accessSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

import { CheckpointFolder, tensor } from '../../fixtures/checkpoint.ts';

export const project = fileURLToPath(new URL('../../..', import.meta.url));
export const launcher = join(project, 'src', 'cli', 'weightroom.mjs');

/** An ordinary user who owns nothing. */
export const nobody = 65534;

export interface Run {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly child: ChildProcess;
  readonly ended: Promise<Run>;
}

export interface StartOptions {
  /** Default: this process's own. */
  readonly node?: string;
  readonly launcher?: string;
  readonly uid?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly cwd?: string;
}

/** A temporary home for the running test. */
export class Place {
  readonly path: string;
  readonly #options: StartOptions;

  constructor(options: StartOptions = {}) {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'weightroom-cli-')));
    this.#options = options;
    if (options.uid !== undefined) chownSync(this.path, options.uid, options.uid);
    onTestFinished(async () => await rm(this.path, { recursive: true, force: true }));
  }

  at(...names: string[]): string {
    return join(this.path, ...names);
  }

  start(words: readonly string[], options: StartOptions = {}): RunningCommand {
    const { node = process.execPath, uid, cwd, input, ...rest } = { ...this.#options, ...options };
    const child = spawn(node, [rest.launcher ?? launcher, ...words], {
      cwd: cwd ?? this.path,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: this.path,
        XDG_DATA_HOME: this.at('data'),
        XDG_STATE_HOME: this.at('state'),
        XDG_CACHE_HOME: this.at('cache'),
        // One for all tests: with a cold one of its own every command would take twice as long.
        NODE_COMPILE_CACHE: join(project, 'test', '.cache', 'compiled'),
        ...rest.env,
      },
      ...(uid === undefined ? {} : { uid, gid: uid }),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child.stdin.on('error', () => undefined);
    child.stdin.end(input ?? '');
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const ended = new Promise<Run>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
    });
    return { child, ended };
  }

  async run(...words: string[]): Promise<Run> {
    return await this.start(words).ended;
  }

  /** The one document on stdout, with the exit code; anything else there is an error. */
  async json(
    ...words: string[]
  ): Promise<{ code: number | null; document: CommandDocument; stderr: string }> {
    const { code, stdout, stderr } = await this.run(...words, '--json');
    if (!/^[^\n]*\n$/.test(stdout))
      throw new Error(`stdout has not one line: ${JSON.stringify(stdout)}\n${stderr}`);
    return { code, document: JSON.parse(stdout) as CommandDocument, stderr };
  }

  /** Two shards with float32 and float16, some 30 KB. */
  checkpoint(name = 'model', seed = 1): string {
    return new CheckpointFolder(this.at(name)).shards({
      'model-00001-of-00002.safetensors': { 'a.weight': tensor('F32', [64, 64], seed) },
      'model-00002-of-00002.safetensors': {
        'b.weight': tensor('F16', [64, 32], seed),
        'c.bias': tensor('F32', [64], seed),
      },
    }).path;
  }

  async store(name = 'store', ...options: string[]): Promise<string> {
    const { code, stderr } = await this.run('domain', 'create', this.at(name), ...options);
    if (code !== 0) throw new Error(stderr);
    return this.at(name);
  }

  /** The key of what was built. */
  async built(root: string, checkpoint: string, ...options: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run('build', checkpoint, '--domain', root, '-q', ...options);
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  }
}

export interface FailureDocument {
  readonly stage: string;
  readonly code: string;
  readonly retryable: boolean;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** An entry of `ls`, `verify` or `quarantine ls`. */
export interface EntryDocument {
  readonly key: string;
  readonly name: string;
  readonly state: string;
  readonly status: string;
  readonly bytes: number;
  readonly elapsed_ms: number;
  readonly problem: string | null;
  readonly model_id: string | null;
}

/** Every field into which a test looks, of whatever command; those of other commands are not there. */
export interface CommandDocument {
  readonly key: string;
  readonly outcome: string;
  readonly existing: boolean;
  readonly notice: string | null;
  readonly domain_uuid: string;
  readonly artifact_bytes: number;
  readonly bytes: number;
  readonly store_bytes: number;
  readonly other_bytes: number;
  readonly elapsed_ms: number;
  readonly valid: number;
  readonly held: number;
  readonly status: string;
  readonly entries: readonly EntryDocument[];
  readonly artifacts: readonly EntryDocument[];
  readonly locks: readonly { readonly state: string }[];
  readonly attempts: readonly unknown[];
  readonly nearest: readonly { readonly differences: readonly unknown[] }[];
  readonly tensors: readonly { readonly name: string }[];
  readonly identity: { readonly source: { revision: string }; readonly producer: { version: string } };
  readonly build: { readonly status: string; readonly key: string };
  readonly failure: FailureDocument;
}

/** A Node that is too old to run the program, where the system has one. */
export function systemNode(): string | undefined {
  const folders = ['/usr/bin', '/usr/local/bin', ...(process.env['PATH'] ?? '').split(delimiter)];
  return folders
    .map((folder) => join(folder, 'node'))
    .find((node) => {
      if (!existsSync(node)) return false;
      const major = Number(/^v(\d+)/.exec(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout)?.[1]);
      return major >= 14 && major < 22;
    });
}

/** A Node and a launcher that `nobody` can read: those of this checkout, or copies where it is closed to others. */
export function readableToNobody(place: Place): { node: string; launcher: string } {
  const here = { node: process.execPath, launcher };
  const probe = spawnSync(here.node, [here.launcher, '--version'], {
    uid: nobody,
    gid: nobody,
    cwd: '/',
    env: {},
  });
  if (probe.status === 0) return here;
  const copy = place.at('checkout');
  for (const name of [
    'package.json',
    'src',
    'native/index.ts',
    'native/load.ts',
    'native/build/Release/weightroom.node',
  ]) {
    cpSync(join(project, name), join(copy, name), { recursive: true });
  }
  mkdirSync(join(copy, 'bin'));
  cpSync(process.execPath, join(copy, 'bin', 'node'), { mode: constants.COPYFILE_FICLONE });
  accessSync(join(copy, 'bin', 'node'), constants.X_OK);
  return { node: join(copy, 'bin', 'node'), launcher: join(copy, 'src/cli/weightroom.mjs') };
}

/** Polls until `condition` holds. */
export async function until(what: string, condition: () => boolean, timeoutMs = 60_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
