#!/usr/bin/env node
// Starts the command line on a Node that can run it. This file alone is read by whatever Node the system has,
// so it is plain JavaScript for Node 14 and later. A new enough Node runs the program in this process; another
// one hands over to the Node that this project pins, with the same arguments, streams, signals and exit code.
import { spawn } from 'child_process';
import { existsSync, mkdirSync, realpathSync } from 'fs';
import { homedir } from 'os';
import { dirname, isAbsolute, join } from 'path';
import { fileURLToPath } from 'url';

const launcher = fileURLToPath(import.meta.url);
const project = join(dirname(launcher), '..', '..');
const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];

/** The versions that package.json names, with type stripping not switched off. */
function canRunHere() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return ((major === 22 && minor >= 18) || major >= 24) && Boolean(process.features.typescript);
}

/** The pinned Node's package, below this project or, when npm hoisted it, below a folder that holds us. */
function pinnedNode() {
  for (let folder = project; ; folder = dirname(folder)) {
    const node = join(folder, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node');
    if (existsSync(node)) return node;
    if (dirname(folder) === folder) return undefined;
  }
}

function explain(reason) {
  console.error(
    `weightroom needs Node 22.18 or newer in the 22 line, or Node 24 and later; this is ${process.version}. ${reason}`,
  );
  process.exitCode = 2;
}

function handOver(node) {
  const child = spawn(node, [launcher, ...process.argv.slice(2)], {
    stdio: 'inherit',
    // So that the program can tell that its starter is gone, should that be killed.
    env: { ...process.env, WEIGHTROOM_LAUNCHER_PID: String(process.pid) },
  });
  const forward = (signal) => child.kill(signal);
  for (const signal of forwarded) process.on(signal, forward);
  child.on('error', (error) =>
    explain(`The one that comes with it (${node}) does not start: ${error.message}`),
  );
  child.on('close', (code, signal) => {
    for (const name of forwarded) process.removeListener(name, forward);
    if (signal) process.kill(process.pid, signal);
    else process.exitCode = code === null ? 1 : code;
  });
}

/** Keeps compiled code between starts, in a folder that nobody else can write: without it a start takes twice as long. */
async function enableCompileCache() {
  const { enableCompileCache: enable } = await import('module');
  if (!enable || process.env.NODE_COMPILE_CACHE) return;
  const { XDG_CACHE_HOME: cache } = process.env;
  const folder = join(
    cache && isAbsolute(cache) ? cache : join(homedir(), '.cache'),
    'weightroom',
    'compiled',
  );
  try {
    makeFolder(folder);
  } catch {
    return;
  }
  enable(folder);
}

/** Node's recursive mkdir never returns where a file system answers ENOENT below a folder that is there, as procfs does. */
function makeFolder(path) {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}

async function runHere() {
  await enableCompileCache();
  const { main } = await import('./main.ts');
  await main();
}

if (canRunHere()) {
  runHere().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
} else {
  const node = pinnedNode();
  if (!node) explain('The Node that comes with it is not installed: run `npm ci` in the project folder.');
  else if (realpathSync(node) === realpathSync(process.execPath)) {
    explain('Its support for TypeScript is switched off (see NODE_OPTIONS).');
  } else handOver(node);
}
