/** A folder with a domain and a checkpoint that takes a while to build, for tests that stop it half-way. */
import { closeSync, constants, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { native } from '#native';
import type { BuildRequest } from '../../../src/production/build-protocol.ts';
import { createDomain } from '../../../src/store/domain.ts';
import { CheckpointFolder } from '../../fixtures/checkpoint.ts';

/** Enough that reading or writing it takes long after the first sign of either. */
export const largeBytes = 2 * 1024 ** 3;

export class BuildScene {
  readonly base: string;
  readonly root: string;
  readonly checkpoint: CheckpointFolder;

  private constructor(base: string) {
    this.base = base;
    this.root = join(base, 'store');
    this.checkpoint = new CheckpointFolder(join(base, 'tiny'));
  }

  static async make(): Promise<BuildScene> {
    const scene = new BuildScene(mkdtempSync(join(tmpdir(), 'weightroom-process-')));
    const created = await createDomain({ root: scene.root });
    if (!created.ok) throw new Error(created.failure.message);
    return scene;
  }

  /** A hole of `largeBytes`, which costs no space where it is but time to read. */
  large(): this {
    this.checkpoint.sparse('model.safetensors', 'weight', 'BF16', largeBytes / 2);
    return this;
  }

  request(more: Partial<BuildRequest> = {}): BuildRequest {
    return { checkpoint: this.checkpoint.path, domain: this.root, representation: 'preserve', ...more };
  }

  staged(): string[] {
    return readdirSync(join(this.root, 'tmp'));
  }

  locks(): string[] {
    return readdirSync(join(this.root, 'locks')).map((name) => join(this.root, 'locks', name));
  }

  async remove(): Promise<void> {
    const parent = openSync(dirname(this.base), constants.O_RDONLY);
    await native.removeTree(parent, basename(this.base));
    closeSync(parent);
    rmSync(this.base, { recursive: true, force: true });
  }
}

/** Whether there is such a process that still runs; a zombie has ended. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z';
  } catch {
    return false;
  }
}

/** Polls; the test's own time limit is what ends a wait in vain. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}
