/** From failures that are values to failures that unwind. */
import { FailureError, type Outcome } from '../contract/failure.ts';

/** Throws FailureError where there is none. */
export function valueOf<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.value;
  throw new FailureError(outcome.failure);
}
