/**
 * The Python environment of the interop suite and the benchmark: which interpreter, which pinned packages,
 * where they lie, and how they get there. It is made once in a git-ignored folder and then only looked at.
 *
 * vLLM-Omni is installed without its dependencies: the store inside it needs torch, numpy, safetensors and
 * regex, and torch comes with the interpreter (Debian's python3-torch, or whatever WEIGHTROOM_PYTHON has).
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

const pins = ['vllm-omni==0.30.0', 'safetensors==0.8.0', 'regex==2026.11.19'];
const debianPython = '/usr/bin/python3';
const debianTorch = ['python3-torch', 'python3-numpy'];

const cache = path.resolve(import.meta.dirname, '../.cache');
const home = path.join(cache, 'interop-python');
const stampFile = path.join(home, 'stamp.json');
const driver = path.join(import.meta.dirname, 'side.py');

export interface PythonVersions {
  readonly python: string;
  readonly torch: string;
  readonly vllmOmni: string;
  readonly safetensors: string;
  readonly regex: string;
}

export interface PythonEnvironment {
  readonly interpreter: string;
  /** The folder to put first on sys.path; `vllm_omni` in it needs its parent package stubbed, as the driver does. */
  readonly packages: string;
  readonly driver: string;
  /** What to spawn the driver with: spawn(interpreter, args, { env }). */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly versions: PythonVersions;
}

interface Stamp {
  readonly pins: readonly string[];
  readonly interpreter: string;
  readonly versions: PythonVersions;
}

/** The environment as it stands; throws when it has not been made. */
export function pythonEnvironment(): PythonEnvironment {
  const stamp = readStamp();
  if (stamp === undefined)
    throw new Error('The Python environment of the interop suite is not made: await ensurePython() first.');
  return environmentOf(stamp);
}

/** Make the environment if it is missing, half-made or made from other pins. The second call costs one probe. */
export async function ensurePython(): Promise<PythonEnvironment> {
  const wanted = process.env['WEIGHTROOM_PYTHON'] || debianPython;
  const stamp = readStamp();
  // A kept cache can meet a fresh machine, so what the stamp says of the interpreter is looked at again.
  if (stamp?.interpreter === wanted && (await hasTorch(wanted, stamp.versions.python)))
    return environmentOf(stamp);

  const pythonVersion = await usablePython(wanted);
  await mkdir(cache, { recursive: true });
  await removeAbandoned();
  const making = path.join(cache, `interop-python.making.${process.pid}.${randomUUID()}`);
  try {
    const packages = path.join(making, 'packages');
    await installPackages(wanted, pythonVersion, packages);
    const made: Stamp = { pins, interpreter: wanted, versions: await readVersions(wanted, packages) };
    await writeFile(path.join(making, 'stamp.json'), JSON.stringify(made, null, 2) + '\n');
    // Somebody else may have finished the same work in the meantime, and use it already.
    const theirs = readStamp();
    if (stamp === undefined && theirs?.interpreter === wanted) return environmentOf(theirs);
    await rm(home, { recursive: true, force: true });
    await rename(making, home);
    return environmentOf(made);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

/** One line for a person: what the other side of the tests is. */
export function describePython({ interpreter, versions }: PythonEnvironment): string {
  return (
    `interop: ${interpreter} (Python ${versions.python}), torch ${versions.torch}, ` +
    `vllm-omni ${versions.vllmOmni}, safetensors ${versions.safetensors}`
  );
}

function environmentOf({ interpreter, versions }: Stamp): PythonEnvironment {
  const packages = path.join(home, 'packages');
  return { interpreter, packages, driver, args: [driver, packages], env: { ...process.env }, versions };
}

/** Undefined unless a whole environment with today's pins is there. */
function readStamp(): Stamp | undefined {
  if (!existsSync(stampFile)) return undefined;
  try {
    const stamp = JSON.parse(readFileSync(stampFile, 'utf8')) as Stamp;
    return stamp.pins.join() === pins.join() ? stamp : undefined;
  } catch {
    return undefined; // unreadable: made again
  }
}

/** Folders of runs that were killed while making the environment. */
async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(cache)) {
    const pid = /^interop-python\.making\.(\d+)\./.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) {
      await rm(path.join(cache, name), { recursive: true, force: true });
    }
  }
}

// --- The interpreter ---------------------------------------------------------------------------------------

/** Cheap: finds the modules without importing them. */
async function hasTorch(interpreter: string, version: string): Promise<boolean> {
  const found = await run(interpreter, [
    '-c',
    'import sys, importlib.util as u; print(".".join(map(str, sys.version_info[:3])), *(u.find_spec(m) is not None for m in ("torch", "numpy")))',
  ]);
  return found.ok && found.stdout.trim() === `${version} True True`;
}

/** The version of an interpreter with a torch that works, which may have to be installed; throws when there is none. */
async function usablePython(interpreter: string): Promise<string> {
  const probe = () =>
    run(interpreter, [
      '-c',
      'import sys, torch, numpy; torch.zeros(1).numpy(); print(".".join(map(str, sys.version_info[:3])))',
    ]);
  let found = await probe();
  const tried = [`${interpreter} -c "import torch, numpy": ${found.ok ? 'ok' : lastLine(found.stderr)}`];
  if (!found.ok && interpreter === debianPython && isRoot()) {
    tried.push(await aptInstall(debianTorch));
    found = await probe();
  }
  if (found.ok) return found.stdout.trim();
  throw problem(
    'No Python interpreter with torch and numpy was found.',
    tried,
    `As root: apt-get update && apt-get install ${debianTorch.join(' ')}. ` +
      'Or set WEIGHTROOM_PYTHON to an interpreter (3.10 or newer) that can import torch and numpy; torch for CPUs is enough.',
  );
}

async function readVersions(interpreter: string, packages: string): Promise<PythonVersions> {
  const shown = await run(interpreter, [driver, packages, '--versions']);
  if (!shown.ok) {
    throw problem(
      'The packages were installed, but the host-weight store does not import.',
      [`${interpreter} side.py --versions: ${lastLine(shown.stderr)}`],
      'This torch may be too old or too new for the pinned packages: try another with WEIGHTROOM_PYTHON.',
    );
  }
  const { versions } = JSON.parse(shown.stdout) as { versions: Record<string, string> };
  const version = (name: string) => versions[name] ?? 'unknown';
  return {
    python: version('python'),
    torch: version('torch'),
    vllmOmni: version('vllm_omni'),
    safetensors: version('safetensors'),
    regex: version('regex'),
  };
}

// --- The packages ------------------------------------------------------------------------------------------

async function installPackages(interpreter: string, pythonVersion: string, packages: string): Promise<void> {
  const [major, minor] = pythonVersion.split('.');
  const options = ['--target', packages, '--no-deps', '--only-binary=:all:', '--no-compile', '--quiet'];
  // Another interpreter's pip would choose wheels for itself unless it is told for whom.
  const foreign = [
    '--python-version',
    `${major}.${minor}`,
    '--implementation',
    'cp',
    '--abi',
    `cp${major}${minor}`,
  ];
  const tried: string[] = [];
  const hasPip = async (python: string): Promise<boolean> => {
    const version = await run(python, ['-m', 'pip', '--version']);
    if (!version.ok) tried.push(`${python} -m pip: ${lastLine(version.stderr)}`);
    return version.ok;
  };
  const install = async (python: string, extra: readonly string[]): Promise<boolean> => {
    await rm(packages, { recursive: true, force: true });
    const installed = await run(python, ['-m', 'pip', 'install', ...options, ...extra, ...pins]);
    if (!installed.ok)
      tried.push(`${python} -m pip install ${pins.join(' ')}: ${lastLine(installed.stderr)}`);
    return installed.ok;
  };

  const own = await hasPip(interpreter);
  if (own && (await install(interpreter, []))) return;
  if ((await hasPip('python3')) && (await install('python3', foreign))) return;
  if (!own && interpreter === debianPython && isRoot()) {
    tried.push(await aptInstall(['python3-pip']));
    if ((await hasPip(interpreter)) && (await install(interpreter, []))) return;
  }
  throw problem(
    `The pinned packages could not be installed: ${pins.join(', ')}.`,
    tried,
    'Check that pip works and reaches a package index (pip config, PIP_INDEX_URL), then run this again.',
  );
}

// --- Running things ----------------------------------------------------------------------------------------

interface Ran {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

function run(file: string, args: readonly string[], extraEnv: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const options = { env: { ...process.env, ...extraEnv }, timeout: 600_000, maxBuffer: 64 << 20 };
  return new Promise((resolve) => {
    execFile(file, args, options, (error, stdout, stderr) => {
      resolve({ ok: error === null, stdout, stderr: stderr || (error?.message ?? '') });
    });
  });
}

function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** Says how it went, for the list of what was tried; whether it helped shows when the caller looks again. */
async function aptInstall(names: readonly string[]): Promise<string> {
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  const updated = await run('apt-get', ['update', '-q'], env);
  const installed = await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', ...names], env);
  const failed = [updated, installed].find((step) => !step.ok);
  return `apt-get install ${names.join(' ')}: ${failed === undefined ? 'ok' : lastLine(failed.stderr)}`;
}

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}

function problem(what: string, tried: readonly string[], remedy: string): Error {
  return new Error(
    [what, 'Tried:', ...tried.map((line) => `  - ${line}`), `What to do: ${remedy}`].join('\n'),
  );
}
