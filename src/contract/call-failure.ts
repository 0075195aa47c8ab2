/**
 * How a failure crosses the boundary: as the one typed error of every call, with the failure as its data. For
 * clients, and therefore without a schema library.
 */
import type { Failure } from './failure.ts';

/** The error's code on the wire. Any other code is a bug or a connection that went. */
export const failureErrorCode = 'FAILURE';

/** The failure in what a call or a stream threw; null for anything else (a lost connection, a bug). */
export function failureOf(error: unknown): Failure | null {
  if (typeof error !== 'object' || error === null) return null;
  const { code, data } = error as { readonly code?: unknown; readonly data?: unknown };
  return code === failureErrorCode && isFailure(data) ? data : null;
}

function isFailure(value: unknown): value is Failure {
  if (typeof value !== 'object' || value === null) return false;
  const { stage, code, message } = value as Partial<Record<keyof Failure, unknown>>;
  return typeof stage === 'string' && typeof code === 'string' && typeof message === 'string';
}
