/**
 * The build process: one build, then exit. It can be killed at any moment: the kernel frees its locks, and
 * what it staged is cleared by the next build of the same key.
 *
 * Cancelling is the end of stdin, SIGTERM, SIGINT, SIGHUP, SIGQUIT, the parent's death or a stdout that nobody reads any more:
 * the build is aborted and cleaned up, and the process ends with 130. Nothing but descriptors 0 to 2 comes
 * from the parent; see child-process.ts.
 */
import { constants } from 'node:os';
import { native } from '#native';
import { runBuild } from './build-job.ts';
import { exitCodes, parseRequest, type BuildResult, type ChildEvent } from './build-protocol.ts';

/** A request is a few paths. */
const maxRequestBytes = 1024 ** 2;
/** Events that say nothing new are dropped while the reader is this far behind. */
const maxUnreadBytes = 64 * 1024;

const cancelling = new AbortController();
const cancel = (): void => cancelling.abort(new Error('the build was cancelled'));

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, cancel);
process.stdout.on('error', cancel);
native.setParentDeathSignal(constants.signals.SIGTERM);

process.exit(await main());

async function main(): Promise<number> {
  const line = await readRequest();
  const result = line === null ? cancelled() : await answer(line);
  await sendLast(result);
  if (result.status === 'cancelled') return exitCodes.cancelled;
  return result.failure === null ? exitCodes.done : exitCodes.failed;
}

async function answer(line: string): Promise<BuildResult> {
  const request = parseRequest(line);
  if (!request.ok) return { ...cancelled(), status: 'failed', failure: request.failure };
  return await runBuild(request.value, { signal: cancelling.signal, emit });
}

function cancelled(): BuildResult {
  return { status: 'cancelled', key: null, identity: null, artifactBytes: null, elapsedMs: 0, failure: null };
}

/** The first line of stdin; null where stdin ended before it did. Watches for the end of stdin from then on. */
function readRequest(): Promise<string | null> {
  return new Promise((resolve) => {
    let text = '';
    let complete = false;
    process.stdin.setEncoding('utf8');
    process.stdin.on('data', (chunk: string) => {
      if (complete) return;
      text += chunk;
      const end = text.indexOf('\n');
      if (end < 0 && text.length <= maxRequestBytes) return;
      complete = true;
      // A line without an end is no request either; parsing says so.
      resolve(text.slice(0, end < 0 ? maxRequestBytes : end));
      text = '';
    });
    const gone = (): void => {
      cancel();
      resolve(null);
    };
    process.stdin.on('end', gone);
    process.stdin.on('error', gone);
    cancelling.signal.addEventListener('abort', () => resolve(null));
  });
}

function emit(event: ChildEvent): void {
  if (event.type === 'progress' && process.stdout.writableLength > maxUnreadBytes) return;
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

/** Resolves when the result has left, or when nobody is there to take it. */
function sendLast(result: BuildResult): Promise<void> {
  return new Promise((resolve) => {
    const event: ChildEvent = { type: 'result', ...result };
    process.stdout.write(`${JSON.stringify(event)}\n`, () => resolve());
    if (!cancelling.signal.aborted) cancelling.signal.addEventListener('abort', () => resolve());
  });
}
