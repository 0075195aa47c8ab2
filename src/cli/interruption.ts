/**
 * Ctrl+C and requests to end. A command that can end cleanly is told by its signal; any other is ended at
 * once, which the store survives at every point. A second signal ends a command that does not come to its end:
 * but not within the first second, because a terminal and a launcher can deliver one keypress twice.
 */
import { exitCodes } from './exit-codes.ts';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const sameKeypressMs = 1000;

export class Interruption {
  readonly #controller = new AbortController();
  readonly #interruptible: boolean;
  readonly #beforeExit: () => void;
  #firstMs: number | null = null;

  /** `beforeExit` tells that the command was interrupted, where the command can't. */
  constructor(interruptible: boolean, beforeExit: () => void) {
    this.#interruptible = interruptible;
    this.#beforeExit = beforeExit;
    for (const signal of signals) process.on(signal, this.#arrived);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    for (const signal of signals) process.off(signal, this.#arrived);
  }

  readonly #arrived = (): void => {
    const now = performance.now();
    if (this.#interruptible && this.#firstMs === null) {
      this.#firstMs = now;
      this.#controller.abort();
      return;
    }
    if (this.#firstMs !== null && now - this.#firstMs < sameKeypressMs) return;
    this.#beforeExit();
    process.exit(exitCodes.interrupted);
  };
}
