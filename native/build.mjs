// Compiles the native addon for the Node that this project pins. Runs as the package's postinstall, so it is
// plain JavaScript for whatever Node npm itself runs on, and it downloads nothing: the pinned Node's package
// carries the headers.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const addon = join(here, 'build', 'Release', 'weightroom.node');
const require = createRequire(import.meta.url);

function resolved(request) {
  try {
    return require.resolve(request);
  } catch {
    return undefined;
  }
}

/** The folder that has bin/node and include/node: the pinned package, or where this Node itself lives. */
function nodePrefix() {
  const pinned = resolved(`node-linux-${process.arch}/package.json`);
  const candidates = [pinned && dirname(pinned), join(dirname(process.execPath), '..')];
  return candidates.find((prefix) => prefix && existsSync(join(prefix, 'include', 'node', 'node_api.h')));
}

function newestSource() {
  const sources = readdirSync(join(here, 'src')).map((name) => join(here, 'src', name));
  return Math.max(...[...sources, join(here, 'binding.gyp')].map((path) => statSync(path).mtimeMs));
}

/** Undefined when the addon loads, else what Node says. Another process, so that nothing stays mapped here. */
function loadFailure(prefix) {
  const pinnedNode = join(prefix, 'bin', 'node');
  const node = existsSync(pinnedNode) ? pinnedNode : process.execPath;
  const run = spawnSync(node, ['-e', 'require(process.argv[1])', addon], { encoding: 'utf8' });
  return run.status === 0 ? undefined : run.stderr || String(run.error ?? `signal ${run.signal}`);
}

function isCurrent(prefix) {
  return existsSync(addon) && statSync(addon).mtimeMs > newestSource() && loadFailure(prefix) === undefined;
}

function compile(prefix) {
  const nodeGyp = resolved('node-gyp/bin/node-gyp.js');
  if (!nodeGyp) return 'The package node-gyp is not installed: run `npm ci` first.';
  const args = [nodeGyp, 'configure', 'build', '--jobs', 'max', '--directory', here, '--nodedir', prefix];
  // binding.gyp asks `node` for a folder; let it be this one.
  const PATH = dirname(process.execPath) + delimiter + (process.env.PATH ?? '');
  const run = spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, PATH } });
  return run.status === 0 ? undefined : `${run.stdout ?? ''}${run.stderr ?? ''}${run.error ?? ''}`;
}

function fail(output) {
  console.error(output.trimEnd());
  console.error(
    '\nWeightroom: the native addon could not be built. It needs g++ 12 or newer (C++20), make and python3, ' +
      'on Debian and Ubuntu: `sudo apt install g++ make python3`. Then run `npm run postinstall` again.',
  );
  process.exitCode = 1;
}

function main() {
  if (process.platform !== 'linux') return fail('This addon is for Linux only.');
  const prefix = nodePrefix();
  if (!prefix) {
    return fail(
      `There are no Node headers: the package node-linux-${process.arch} is not installed (was npm told to ` +
        `leave out optional packages?) and ${process.execPath} came without its include folder.`,
    );
  }
  if (isCurrent(prefix)) return console.log('Weightroom: the native addon is up to date.');
  const output = compile(prefix);
  if (output !== undefined) return fail(output);
  const failure = loadFailure(prefix);
  if (failure !== undefined) return fail(`The addon was built but does not load:\n${failure}`);
  console.log('Weightroom: built the native addon.');
}

main();
