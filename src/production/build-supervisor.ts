/**
 * The parent's side of a build: starts the build process, passes its events on with rates, cancels it and
 * turns every way in which it can end into one result. Never throws and never leaves a child behind: closing
 * the pipe to it, which this process's own end does too, makes it go.
 */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { resolve as resolvePath } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { failure, type Failure } from '../contract/failure.ts';
import { monotonicMs } from '../store/clock.ts';
import type { BuildPhase, BuildRequest, BuildResult, ChildEvent } from './build-protocol.ts';
import { spawnChild } from '../store/child-process.ts';
import { TransferRate } from './transfer-rate.ts';

export type BuildEvent =
  | { readonly type: 'phase'; readonly phase: BuildPhase }
  | {
      readonly type: 'progress';
      readonly phase: BuildPhase;
      readonly bytes: number;
      readonly totalBytes: number;
      /** Over the last seconds; null until known. */
      readonly bytesPerSecond: number | null;
      readonly secondsLeft: number | null;
    }
  | { readonly type: 'warning'; readonly message: string };

export interface RunningBuild {
  /** Undefined where the process could not be started. */
  readonly pid: number | undefined;
  readonly startedAt: Date;
  /** Asks the child to clean up and go, then makes it. Calling it again, or too late, changes nothing. */
  readonly cancel: () => void;
  /** Resolves when the child is gone, whatever happened. Never rejects. */
  readonly result: Promise<BuildResult>;
}

export interface SuperviseOptions {
  readonly onEvent?: (event: BuildEvent) => void;
  /** From cancel() to SIGTERM. Removing what was staged takes its time on a slow disk. */
  readonly terminateAfterMs?: number;
  /** From SIGTERM to SIGKILL. */
  readonly killAfterMs?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

const entry = fileURLToPath(new URL('./build-process.ts', import.meta.url));

/** Paths of the request may be relative to this process's working directory. */
export function startBuild(request: BuildRequest, options: SuperviseOptions = {}): RunningBuild {
  return supervise(spawnChild(entry), request, options);
}

/** The same for a child that is there already and speaks the protocol. */
export function supervise(
  child: ChildProcessWithoutNullStreams,
  request: BuildRequest,
  options: SuperviseOptions = {},
): RunningBuild {
  const supervised = new Supervised(child, options);
  supervised.send({
    ...request,
    checkpoint: resolvePath(request.checkpoint),
    domain: resolvePath(request.domain),
  });
  return {
    pid: child.pid,
    startedAt: new Date(),
    cancel: () => supervised.cancel(),
    result: supervised.result,
  };
}

const stderrLinesKept = 20;

class Supervised {
  readonly result: Promise<BuildResult>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #options: SuperviseOptions;
  readonly #now: () => number;
  readonly #startedMs: number;
  readonly #rate = new TransferRate();
  readonly #stderrLines: string[] = [];
  #told: BuildResult | null = null;
  #cancelled = false;
  #escalation: NodeJS.Timeout | null = null;

  constructor(child: ChildProcessWithoutNullStreams, options: SuperviseOptions) {
    this.#child = child;
    this.#options = options;
    this.#now = options.now ?? monotonicMs;
    this.#startedMs = this.#now();
    // Without descriptors to spare there is no process and there are no pipes, only the error event.
    if (child.pid !== undefined) this.#listen();
    this.result = new Promise((resolve) => {
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(this.#conclude(startFailure(error)));
      });
      // `close` comes after `exit` and after the last line of both outputs.
      child.on('close', (code, signal) =>
        resolve(this.#conclude(deathFailure(code, signal, this.#stderrLines))),
      );
    });
  }

  #listen(): void {
    const { stdin, stdout, stderr } = this.#child;
    // A child that is gone already closes its end; that it is gone is told by its exit.
    stdin.on('error', () => undefined);
    createInterface({ input: stdout }).on('line', (line) => this.#read(line));
    createInterface({ input: stderr }).on('line', (line) => this.#keep(line));
  }

  send(request: BuildRequest): void {
    if (this.#child.pid === undefined) return;
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
  }

  cancel(): void {
    if (this.#cancelled || this.#isGone()) return;
    this.#cancelled = true;
    this.#child.stdin.end();
    const { terminateAfterMs = 10_000, killAfterMs = 10_000 } = this.#options;
    this.#escalation = setTimeout(() => {
      this.#child.kill('SIGTERM');
      this.#escalation = setTimeout(() => this.#kill(), killAfterMs);
    }, terminateAfterMs);
  }

  #kill(): void {
    this.#child.kill('SIGKILL');
    this.#options.onEvent?.({
      type: 'warning',
      message:
        'The build process did not go when asked and was killed. What it had staged stays in the store until the next build of the same artifact or a cleanup.',
    });
  }

  #isGone(): boolean {
    const { pid, exitCode, signalCode } = this.#child;
    return pid === undefined || exitCode !== null || signalCode !== null;
  }

  #conclude(unexplained: Failure): BuildResult {
    if (this.#escalation !== null) clearTimeout(this.#escalation);
    if (this.#told !== null) return this.#told;
    return {
      status: this.#cancelled ? 'cancelled' : 'failed',
      key: null,
      identity: null,
      artifactBytes: null,
      elapsedMs: Math.round(this.#now() - this.#startedMs),
      failure: this.#cancelled ? null : unexplained,
    };
  }

  #read(line: string): void {
    let event: ChildEvent;
    try {
      event = JSON.parse(line) as ChildEvent;
    } catch {
      // Not ours: something below the child wrote to its stdout. Worth reading if it dies.
      this.#keep(line);
      return;
    }
    if (event.type === 'result') {
      const { type: _type, ...result } = event;
      this.#told = result;
      return;
    }
    this.#options.onEvent?.(this.#withRate(event));
  }

  #withRate(event: Exclude<ChildEvent, { type: 'result' }>): BuildEvent {
    if (event.type === 'phase') this.#rate.reset();
    if (event.type !== 'progress') return event;
    this.#rate.add(this.#now(), event.bytes);
    return {
      ...event,
      bytesPerSecond: this.#rate.bytesPerSecond,
      secondsLeft: this.#rate.secondsLeft(event.totalBytes),
    };
  }

  #keep(line: string): void {
    this.#stderrLines.push(line);
    if (this.#stderrLines.length > stderrLinesKept) this.#stderrLines.shift();
  }
}

function startFailure(error: Error): Failure {
  return failure(
    'production',
    'producer_failed',
    `The build process could not be started: ${error.message}`,
    {
      retryable: true,
    },
  );
}

function deathFailure(
  code: number | null,
  signal: NodeJS.Signals | null,
  stderrLines: readonly string[],
): Failure {
  const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
  const why =
    signal === 'SIGKILL' ? ' Somebody killed it, or the system was out of memory (see `journalctl -k`).' : '';
  const last = stderrLines.length > 0 ? ` Its last words: ${stderrLines.join('\n')}` : '';
  return failure(
    'production',
    'producer_failed',
    `The build process ended ${how} before it had a result.${why} Its locks are free again; what it had staged is removed by the next build of the same artifact.${last}`,
    { retryable: true, details: { exit_code: code, signal, stderr: stderrLines } },
  );
}
