/** A store with an artifact, a driver that imitates GPUs, and the command line, for tests of registration. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import {
  MiB,
  bodyOf,
  identityOf,
  metadataOfTests,
  producerOf,
  store,
  temporaryFolder,
  tensorSpec,
  type Scenario,
} from '../../fixtures/store.ts';
import { startTicksOf } from '../../../src/registration/proc-files.ts';
import { getOrBuild } from '../../../src/store/build.ts';

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const launcher = path('../../../src/cli/weightroom.mjs');

export interface FakeConfig {
  readonly devices?: number;
  readonly readOnlyRegister?: boolean;
  readonly [field: string]: unknown;
}

export interface Run {
  readonly code: number | null;
  /** Each line of stdout. */
  readonly documents: readonly Record<string, unknown>[];
  /** The closing one. */
  readonly last: Record<string, unknown>;
}

export interface FakeCall {
  readonly pid: number;
  readonly call: string;
  readonly device: number | null;
  readonly address?: string;
  readonly bytes?: number;
}

export class RegistrationScene {
  readonly folder: string;
  readonly scenario: Scenario;
  readonly library: string;

  private constructor(folder: string, scenario: Scenario, library: string) {
    this.folder = folder;
    this.scenario = scenario;
    this.library = library;
  }

  /**
   * The artifact has 4 MiB: with chunks of 1 MiB at least four calls. With `files`, that many payload files of
   * 64 KiB instead: so many regions.
   */
  static async make({ files, ...config }: FakeConfig & { files?: number } = {}): Promise<RegistrationScene> {
    const built = spawnSync(process.execPath, [path('../../../native/fake-cuda/build.mjs')], {
      encoding: 'utf8',
    });
    if (built.status !== 0) throw new Error(built.stderr);
    const folder = temporaryFolder();
    const wish = store();
    const scenario = await (files === undefined ? wish.artifact('weights', { bytes: 4 * MiB }) : wish).made();
    if (files !== undefined) await buildOfFiles(scenario, files);
    const scene = new RegistrationScene(folder, scenario, built.stdout.trim());
    scene.configure(config);
    return scene;
  }

  configure({ devices = 4, readOnlyRegister = true, ...more }: FakeConfig): void {
    const list = Array.from({ length: devices }, (_, index) => ({
      name: `Imitation ${index}`,
      uuid: this.uuid(index),
      pci: `0000:0${index + 1}:00.0`,
      total_bytes: 80 * 1024 ** 3,
      read_only_register: readOnlyRegister,
    }));
    writeFileSync(join(this.folder, 'fake.json'), JSON.stringify({ log: this.log, devices: list, ...more }));
  }

  uuid(index: number): string {
    return `GPU-00000000-0000-0000-0000-00000000000${index + 1}`;
  }

  get log(): string {
    return join(this.folder, 'calls.jsonl');
  }

  get key(): string {
    return this.scenario.key('weights');
  }

  calls(): FakeCall[] {
    try {
      return readFileSync(this.log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as FakeCall);
    } catch {
      return [];
    }
  }

  /** Of entries only, by name. */
  addresses(call: string): string[] {
    return this.calls().flatMap((entry) => (entry.call === call ? [entry.address ?? ''] : []));
  }

  records(): string[] {
    return readdirSync(join(this.folder, 'state', 'weightroom', 'registration'));
  }

  async register(gpu: number, ...more: string[]): Promise<Run> {
    return await this.startRegister(gpu, ...more).ended;
  }

  startRegister(gpu: number, ...more: string[]): RunningCommand {
    const chunk = more.includes('--chunk') ? [] : ['--chunk', '1MiB'];
    return this.start('register', this.scenario.root, this.key, '--gpu', String(gpu), ...chunk, ...more);
  }

  async weightroom(...words: string[]): Promise<Run> {
    return await this.start(...words).ended;
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: this.folder,
      XDG_CONFIG_HOME: join(this.folder, 'config'),
      XDG_STATE_HOME: join(this.folder, 'state'),
      XDG_CACHE_HOME: join(this.folder, 'cache'),
      FAKE_CUDA_CONFIG: join(this.folder, 'fake.json'),
    };
  }

  start(...words: string[]): RunningCommand {
    const library = words.includes('--cuda-library') ? [] : ['--cuda-library', this.library];
    const child = spawn(process.execPath, [launcher, ...words, ...library, '--json'], {
      env: this.env,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    return new RunningCommand(child);
  }
}

async function buildOfFiles({ domain }: Scenario, files: number): Promise<void> {
  const identity = identityOf('weights');
  const body = bodyOf({ bytes: 64 * 1024 });
  const producer = producerOf(identity, async (writer) => {
    for (let file = 1; file <= files; file += 1) {
      const name = `weights-${String(file).padStart(5, '0')}.safetensors`;
      const payload = await writer.openPayload(name, [tensorSpec(`body.${file}`, [body.length])]);
      await payload.write(`body.${file}`, body);
      await payload.close();
    }
    return metadataOfTests;
  });
  const result = await getOrBuild(domain, identity, producer, { deadline: null });
  if ('lease' in result) result.lease.close();
}

/** A command whose documents are read as they come. */
export class RunningCommand {
  readonly documents: Record<string, unknown>[] = [];
  readonly ended: Promise<Run>;
  readonly #child: ChildProcess;
  #waiting: (() => void)[] = [];
  #over = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    const { stdout } = child;
    if (stdout === null) throw new Error('stdout is no pipe');
    createInterface({ input: stdout }).on('line', (line) => {
      this.documents.push(JSON.parse(line) as Record<string, unknown>);
      this.#wake();
    });
    this.ended = once(child, 'close').then(() => {
      this.#over = true;
      this.#wake();
      return { code: child.exitCode, documents: this.documents, last: this.documents.at(-1) ?? {} };
    });
  }

  /** The first document that is meant, as soon as it is there. Rejects when the command ends without it. */
  async until(isMeant: (document: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    for (;;) {
      const found = this.documents.find(isMeant);
      if (found !== undefined) return found;
      if (this.#over) throw new Error(`it ended without: ${JSON.stringify(this.documents.at(-1))}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** In its call number `call`, counted from 1: before that a busy machine can look like a stall too. */
  async untilStalledIn(call: number): Promise<void> {
    await this.until((document) => {
      if (document['event'] !== 'state' || document['state'] !== 'stalled') return false;
      const before = this.documents.slice(0, this.documents.indexOf(document));
      return before.filter(({ event }) => event === 'entering').length === call;
    });
  }

  /** Of the registrar. */
  async registrar(): Promise<number> {
    return Number((await this.until(({ event }) => event === 'started'))['pid']);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** Waits for a condition that another process brings about. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20));
}

export function isThere(pid: number): boolean {
  return startTicksOf(pid) !== null;
}
