/**
 * Turns of the event loop for long work in the main process. Everybody who gives way waits in one line, and
 * one of them goes on in each turn: so however many long loops run at the same time, a request that comes in
 * waits for a piece of one of them and never for a piece of each.
 */

const waiting: (() => void)[] = [];

/** Resolves in a turn of its own. */
export async function turn(): Promise<void> {
  await new Promise<void>((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(next);
  });
}

function next(): void {
  waiting.shift()?.();
  // One that is added from within this one's turn runs in the next.
  if (waiting.length > 0) setImmediate(next);
}

/** For long loops: a turn for everybody else every few milliseconds. */
export class Breathing {
  #sinceMs = performance.now();

  /** To be awaited between two steps; gives way only when it is time to. */
  async pause(): Promise<void> {
    if (performance.now() - this.#sinceMs >= turnMs) await this.turn();
  }

  /** Gives way at once: before a step that can't be taken apart. */
  async turn(): Promise<void> {
    await turn();
    this.#sinceMs = performance.now();
  }
}

const turnMs = 8;

/** Work taken apart: it yields wherever it may be left for a moment, and returns its result. */
export type Steps<T> = Generator<undefined, T, undefined>;

export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Looking at the clock costs as much as a small step. */
const stepsPerLook = 32;

export async function inTurns<T>(steps: Steps<T>): Promise<T> {
  const breathing = new Breathing();
  for (let taken = 1; ; taken += 1) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (taken % stepsPerLook === 0) await breathing.pause();
  }
}
