/** The parent's side of an inspection: asks the inspection process, and ends it when nobody waits any more. */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { failed, failure, succeeded, type Outcome } from '../contract/failure.ts';
import type { CheckpointFindings } from './checkpoint-findings.ts';
import { spawnChild } from '../store/child-process.ts';

const entry = fileURLToPath(new URL('./inspection-process.ts', import.meta.url));

export interface InspectOptions {
  readonly signal?: AbortSignal | undefined;
  /** Reading headers takes moments; a file system that hangs takes for ever. Default 60 000. */
  readonly timeoutMs?: number;
}

/** `path` is absolute. Throws the signal's reason. */
export async function inspect(
  path: string,
  { signal, timeoutMs = 60_000 }: InspectOptions = {},
): Promise<Outcome<CheckpointFindings>> {
  signal?.throwIfAborted();
  const child = spawnChild(entry);
  let output = '';
  let errors = '';
  let isLate = false;
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors = (errors + text).slice(-4000)));
  child.stdin.on('error', () => undefined);
  child.stdin.write(`${JSON.stringify({ path })}\n`);
  const kill = (): void => void child.kill('SIGKILL');
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, timeoutMs);
  signal?.addEventListener('abort', kill);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    signal?.throwIfAborted();
    if (code === 0) return succeeded(JSON.parse(output) as CheckpointFindings);
    return failed(isLate ? lateFailure(path, timeoutMs) : deathFailure(path, errors));
  } catch (error) {
    if (child.pid !== undefined) throw error;
    return failed(deathFailure(path, error instanceof Error ? error.message : String(error)));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', kill);
  }
}

function lateFailure(path: string, timeoutMs: number): ReturnType<typeof failure> {
  return failure(
    'canonical_loading',
    'canonical_source_failed',
    `${path} could not be read within ${timeoutMs / 1000} s: the disk or network share that it lies on does not answer. Check that (\`ls\` it), then look again.`,
    { retryable: true, details: { path } },
  );
}

function deathFailure(path: string, errors: string): ReturnType<typeof failure> {
  return failure(
    'canonical_loading',
    'canonical_source_failed',
    `The process that looked at ${path} ended before it had an answer. Look again; if it stays so, this is a bug in Weightroom.`,
    { retryable: true, details: { path, stderr: errors } },
  );
}
