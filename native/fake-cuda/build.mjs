// Compiles the imitation of the CUDA driver for tests and for trying things out: see README.md. Prints its path.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, '..', 'build', 'fake-cuda');
const library = join(folder, 'libfake-cuda.so');
const sources = ['fake-cuda.cc', 'json.h', 'build.mjs'].map((name) => join(here, name));
const newest = Math.max(...sources.map((path) => statSync(path).mtimeMs));

if (!existsSync(library) || statSync(library).mtimeMs < newest) {
  mkdirSync(folder, { recursive: true });
  // Another process may be loading it, or building it too: it appears whole.
  const unfinished = `${library}.${process.pid}`;
  const options = ['-std=c++20', '-O2', '-Wall', '-Wextra', '-Wconversion', '-fPIC', '-shared', '-pthread'];
  const names = ['-fvisibility=hidden', '-Wl,-soname,libfake-cuda.so', '-o', unfinished, sources[0]];
  const run = spawnSync('g++', [...options, ...names], { encoding: 'utf8' });
  if (run.status !== 0) {
    console.error(`${run.stderr ?? ''}${run.error ?? ''}`);
    process.exit(1);
  }
  renameSync(unfinished, library);
}
console.log(library);
