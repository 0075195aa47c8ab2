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

/** Like map, with pauses. */
export async function eachInTurn<T, R>(
  items: readonly T[],
  work: (item: T, index: number) => R,
): Promise<R[]> {
  const breathing = new Breathing();
  const results: R[] = [];
  for (const [index, item] of items.entries()) {
    if (index % itemsPerLook === 0) await breathing.pause();
    results.push(work(item, index));
  }
  return results;
}

/** Looking at the clock costs as much as a small item. */
const itemsPerLook = 64;
