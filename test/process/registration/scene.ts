/** A store with an artifact, a driver that imitates GPUs, and the command line, for tests of registration. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { MiB, store, temporaryFolder, type Scenario } from '../../fixtures/store.ts';

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

  /** The artifact has 4 MiB: with chunks of 1 MiB at least four calls. */
  static async make(config: FakeConfig = {}): Promise<RegistrationScene> {
    const built = spawnSync(process.execPath, [path('../../../native/fake-cuda/build.mjs')], {
      encoding: 'utf8',
    });
    if (built.status !== 0) throw new Error(built.stderr);
    const folder = temporaryFolder();
    const scenario = await store()
      .artifact('weights', { bytes: 4 * MiB })
      .made();
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
    const words = [this.scenario.root, this.key, '--gpu', String(gpu), '--chunk', '1MiB', ...more];
    return await this.weightroom('register', ...words);
  }

  async weightroom(...words: string[]): Promise<Run> {
    const library = words.includes('--cuda-library') ? [] : ['--cuda-library', this.library];
    const child = spawn(process.execPath, [launcher, ...words, ...library, '--json'], {
      env: {
        PATH: process.env['PATH'],
        HOME: this.folder,
        XDG_CONFIG_HOME: join(this.folder, 'config'),
        XDG_STATE_HOME: join(this.folder, 'state'),
        XDG_CACHE_HOME: join(this.folder, 'cache'),
        FAKE_CUDA_CONFIG: join(this.folder, 'fake.json'),
      },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    await once(child, 'close');
    const documents = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    return { code: child.exitCode, documents, last: documents.at(-1) ?? {} };
  }
}
