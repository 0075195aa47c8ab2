/** What went wrong with a call, as the pages show it: what, why, what to do, and the details to copy. */
import { failureOf } from '../../src/contract/call-failure.ts';
import type { Failure } from '../../src/contract/failure.ts';

export interface Problem {
  /** Null: no failure that the engine knows, but a lost connection or a bug. */
  readonly failure: Failure | null;
  readonly message: string;
}

export function problemOf(error: unknown): Problem {
  const failure = failureOf(error);
  if (failure !== null) return { failure, message: failure.message };
  const words = error instanceof Error ? error.message : String(error);
  return { failure: null, message: words };
}

export function problemOfFailure(failure: Failure): Problem {
  return { failure, message: failure.message };
}
