/**
 * The parent's side of the process that reads a store: one process from its start to its end. When it is lost, by
 * its death or because it does not answer any more, every question that is open fails with the reason.
 */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createORPCClient } from '@orpc/client';
import { RPCLink } from '@orpc/client/message-port';
import { failure, FailureError, type Failure } from '../contract/failure.ts';
import { spawnChild } from '../store/child-process.ts';
import { LinePort } from './line-port.ts';
import type { StoreClient } from './store-contract.ts';

export interface StoreReaderOptions {
  readonly pollMs: number;
  /** Files of the program's own: see `DefaultPaths`. */
  readonly files: { readonly catalog: string; readonly history: string };
  /** A process that says nothing for this long while it is asked something is stuck. */
  readonly answerMs: number;
  readonly onBug: (error: unknown) => void;
  /** Something is wrong with the program's own files, and the store is read all the same. */
  readonly onNotice: (message: string) => void;
}

const entry = fileURLToPath(new URL('./store-process.ts', import.meta.url));
/** The silence is counted in steps of this process's own clock, so that a machine that slept blames nobody. */
const steps = 4;
/** From asking it to go to making it. */
const goodbyeMs = 2000;

export class StoreReader {
  readonly startedAtMs = performance.now();
  /** Fires when it is lost. */
  readonly lost: AbortSignal;
  readonly #root: string;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #client: StoreClient;
  readonly #losing = new AbortController();
  readonly #asking: NodeJS.Timeout;
  readonly #ended: Promise<void>;
  readonly #onBug: (error: unknown) => void;
  #failure: Failure | null = null;
  #open = 0;
  #silentSteps = 0;
  #isGone = false;
  #isLeaving = false;

  /** `revision`: what it finds has the ones after it. */
  constructor(
    root: string,
    revision: number,
    { pollMs, files, answerMs, onBug, onNotice }: StoreReaderOptions,
  ) {
    this.#root = root;
    this.#onBug = onBug;
    this.lost = this.#losing.signal;
    this.#child = spawnChild(entry, [root, String(pollMs), String(revision), files.catalog, files.history]);
    this.#client = createORPCClient(new RPCLink({ port: this.#port() }));
    this.#ended = this.#untilEnded();
    this.#asking = setInterval(() => this.#askWhetherAlive(answerMs), answerMs / steps);
    this.#asking.unref();
    // A process that was lost before it answered tells its next one's.
    this.ask(async ({ notices }) => await notices()).then(
      (messages) => messages.forEach(onNotice),
      () => undefined,
    );
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Why it is of no use any more; null while it is. */
  get failure(): Failure | null {
    return this.#failure;
  }

  /** A process that hangs inside the kernel outlives even SIGKILL. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Throws FailureError when the process is lost; whatever else the question throws is passed on. */
  async ask<T>(question: (client: StoreClient) => Promise<T>): Promise<T> {
    this.#open += 1;
    try {
      return await Promise.race([question(this.#client), this.#untilLost()]);
    } catch (error) {
      throw this.#failure === null ? error : new FailureError(this.#failure);
    } finally {
      this.#open -= 1;
    }
  }

  /** Resolves when it is gone, or when it can't be made to go. */
  async close(): Promise<void> {
    this.#isLeaving = true;
    clearInterval(this.#asking);
    this.#child.stdin?.end();
    const killing = setTimeout(() => this.#child.kill('SIGKILL'), goodbyeMs);
    const abandoned = new Promise<void>((resolve) => setTimeout(resolve, 2 * goodbyeMs).unref());
    await Promise.race([this.#ended, abandoned]);
    clearTimeout(killing);
  }

  /**
   * It closes when the process is known to be lost and not with its pipes, which go first: else an open question
   * would fail before there is a reason.
   */
  #port(): { on: LinePort['on']; postMessage: LinePort['postMessage'] } {
    const { pid, stdin, stdout } = this.#child;
    // Without descriptors to spare there are no pipes. The error event tells.
    const line = pid === undefined ? null : new LinePort(stdout, stdin);
    return {
      on: (event, listener) => {
        if (event === 'close') this.lost.addEventListener('abort', () => listener());
        else line?.on(event, listener);
        return line as LinePort;
      },
      postMessage: (message) => line?.postMessage(message),
    };
  }

  async #untilLost(): Promise<never> {
    if (!this.lost.aborted) {
      await new Promise((resolve) => this.lost.addEventListener('abort', resolve, { once: true }));
    }
    throw new FailureError(this.#failure as Failure);
  }

  #lose(why: Failure): void {
    if (this.#failure !== null) return;
    this.#failure = why;
    clearInterval(this.#asking);
    this.#losing.abort(new FailureError(why));
  }

  #untilEnded(): Promise<void> {
    return new Promise((resolve) => {
      const end = (why: string): void => {
        this.#isGone = true;
        this.#lose(
          unavailable(
            `The process that reads the store at ${this.#root} ${why}. It is started again by itself.`,
          ),
        );
        resolve();
      };
      let said = '';
      this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
        said = (said + text).slice(-64 * 1024);
      });
      this.#child.on('error', (error) => {
        if (this.#child.pid === undefined) end(`could not be started: ${error.message}`);
      });
      this.#child.on('close', (code, signal) => {
        if (said !== '') this.#onBug(new Error(`in the process that reads ${this.#root}: ${said}`));
        end(this.#isLeaving ? 'was ended' : `ended unexpectedly (${signal ?? `exit code ${code}`})`);
      });
    });
  }

  #askWhetherAlive(answerMs: number): void {
    if (this.#open === 0) return;
    this.#silentSteps += 1;
    if (this.#silentSteps > steps) {
      const seconds = Math.round(answerMs / 1000);
      this.#lose(
        unavailable(
          `The store at ${this.#root} has not answered for ${seconds} s: reading it hangs. A network or FUSE mount whose server is gone does that. See whether \`ls ${this.#root}\` comes back, and mount it anew if it does not.`,
        ),
      );
      this.#child.kill('SIGKILL');
      return;
    }
    this.#client.alive().then(
      () => {
        this.#silentSteps = 0;
      },
      () => undefined,
    );
  }
}

export function unavailable(message: string): Failure {
  return failure('domain', 'domain_unavailable', message, { retryable: true });
}
