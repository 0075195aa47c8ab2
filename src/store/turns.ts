/**
 * Turns of the event loop for long work in the main process. Everybody who gives way waits in one line, and
 * one of them goes on in each turn: so however many long loops run at the same time, a request that comes in
 * waits for a piece of one of them and never for a piece of each.
 */

const waiting: (() => void)[] = [];
/** When the last of them went on. */
let wentOnAtMs = 0;

/** Gives way at once, before a step that can't be taken apart; resolves in a turn of its own. */
export async function turn(): Promise<void> {
  await new Promise<void>((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(next);
  });
}

function next(): void {
  wentOnAtMs = performance.now();
  waiting.shift()?.();
  // One that is added from within this one's turn runs in the next.
  if (waiting.length > 0) setImmediate(next);
}

const turnMs = 6;

/**
 * To be awaited between two steps of a long loop: gives way only when it is time to. The time is everybody's, so
 * that several loops one after another, none of them long, do not add up to one that is.
 */
export async function pause(): Promise<void> {
  if (performance.now() - wentOnAtMs >= turnMs) await turn();
}

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
  for (let taken = 1; ; taken += 1) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (taken % stepsPerLook === 0) await pause();
  }
}

/** Like map, with pauses. */
export async function eachInTurn<T, R>(
  items: readonly T[],
  work: (item: T, index: number) => R,
): Promise<R[]> {
  return await inTurns(steps(items, work));
}

function* steps<T, R>(items: readonly T[], work: (item: T, index: number) => R): Steps<R[]> {
  const results: R[] = [];
  for (const [index, item] of items.entries()) {
    results.push(work(item, index));
    yield;
  }
  return results;
}
