/** Long loops in the main process: a turn for everybody else every few milliseconds. */

const turnMs = 8;

export class Breathing {
  #sinceMs = performance.now();

  /** To be awaited between two steps; gives way only when it is time to. */
  async pause(): Promise<void> {
    if (performance.now() - this.#sinceMs < turnMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#sinceMs = performance.now();
  }
}
