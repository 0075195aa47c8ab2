/** Monotonic time for deadlines: the wall clock can jump, and a lock must not be waited for the longer for it. */

/** A moment on the monotonic clock, in milliseconds. Null: no deadline. */
export type Deadline = number | null;

export function monotonicMs(): number {
  return performance.now();
}

export function deadlineIn(milliseconds: number): number {
  return monotonicMs() + milliseconds;
}
