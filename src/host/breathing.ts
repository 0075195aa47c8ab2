/** Loops over many items in the main process: a turn for everybody else every few milliseconds. */
import { inTurns, type Steps } from '../store/turns.ts';

export { Breathing } from '../store/turns.ts';

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
