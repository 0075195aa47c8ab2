/** What went wrong with a call, as the pages show it: what, why, what to do, and the details to copy. */
import { failureOf } from '../../src/contract/call-failure.ts';
import type { Failure } from '../../src/contract/failure.ts';

export interface Problem {
  /** Null: no failure that the engine knows, but a lost connection or a bug. */
  readonly failure: Failure | null;
  readonly message: string;
}

const lossWords = 'The connection to Weightroom was lost before the answer came. Try again when it is back.';

export function problemOf(error: unknown): Problem {
  const failure = failureOf(error);
  if (failure !== null) return { failure, message: failure.message };
  // The transport's own words for this differ and say nothing to a person.
  const isLoss = error instanceof Error && (error.name === 'AbortError' || /abort|clos/i.test(error.message));
  if (isLoss) return { failure: null, message: lossWords };
  const words = error instanceof Error ? error.message : String(error);
  return { failure: null, message: words };
}

export function problemOfFailure(failure: Failure): Problem {
  return { failure, message: failure.message };
}
