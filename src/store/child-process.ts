/**
 * The one way in which Weightroom starts a process of its own: the running executable, as plain Node.
 *
 * Inside Electron the executable is Electron, and only ELECTRON_RUN_AS_NODE makes it run a script instead of
 * the app. That is why the packaged app keeps the `runAsNode` fuse on: the alternative is a second Node in the
 * package, larger and one more thing to keep up to date, while Electron's own utility processes are out of
 * reach for the command line, which must start the same children.
 *
 * A child gets three pipes and nothing else: a store's descriptors are all O_CLOEXEC, because a child that
 * inherited a lock's descriptor would hold the lock after its parent's death. The environment is a short list,
 * so that nobody's NODE_OPTIONS, debugger or preload reaches a process that holds locks.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

const passedThrough = [
  /^(PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE)$/,
  /^LC_/,
  /^XDG_/,
  /^WEIGHTROOM_/,
  /^(CUDA_|FAKE_CUDA_|NVIDIA_|LD_LIBRARY_PATH$)/,
];

/**
 * A child runs little JavaScript, and lives beside models that want every byte: a small heap that is collected
 * often halves what a build of many thousand tensors takes. It may say itself when that is worth it.
 */
const engineFlags = ['--optimize-for-size', '--expose-gc'];

export interface SpawnOptions {
  /** On top of what is passed through from this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * `entry` is the absolute path of a script. Its working directory is `/`: a child must not keep somebody's
 * disk from being unmounted. Failing to start is the child's `error` event.
 */
export function spawnChild(
  entry: string,
  args: readonly string[] = [],
  { env = {} }: SpawnOptions = {},
): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [...engineFlags, entry, ...args], {
    cwd: '/',
    env: { ...minimalEnvironment(), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

function minimalEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && passedThrough.some((pattern) => pattern.test(name))) kept[name] = value;
  }
  if (process.versions['electron'] !== undefined) kept['ELECTRON_RUN_AS_NODE'] = '1';
  // What this process compiled a child need not: it starts in half the time. The folder's last part is Node's own.
  const compiled = getCompileCacheDir();
  if (compiled !== undefined) kept['NODE_COMPILE_CACHE'] = dirname(compiled);
  return kept;
}
