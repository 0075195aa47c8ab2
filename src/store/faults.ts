/** From errno to failure: the few rules that every part of the store shares. Source: specification, section 6. */
import { isSystemError, type SystemError } from '#native';
import { failure, type Detail, type Failure, type FailureOptions } from '../contract/failure.ts';
import { DocumentError } from './identity.ts';
import { JsonError } from './canonical-json.ts';
import { LockTimeout } from './lock.ts';
import { PayloadError } from './safetensors.ts';

/** Errors that say something about the shape of what was opened, not about the storage under it. */
const structureCodes = new Set(['EACCES', 'EISDIR', 'ELOOP', 'ENOENT', 'ENOTDIR', 'EPERM']);

export function isOutOfSpace(error: SystemError): boolean {
  return error.code === 'ENOSPC' || error.code === 'EDQUOT';
}

/** The artifact itself is malformed, as opposed to unreadable for the moment. */
export function isStructural(error: unknown): error is Error {
  if (error instanceof DocumentError || error instanceof JsonError || error instanceof PayloadError)
    return true;
  return isSystemError(error) && structureCodes.has(error.code);
}

/** Storage trouble that a retry can cure: `enospc`, or `domain_unavailable` for everything else. */
export function storageFailure(
  error: SystemError,
  what: string,
  details: FailureOptions['details'] = {},
): Failure {
  const options = { retryable: true, details: { ...details, errno: error.code } };
  return isOutOfSpace(error)
    ? failure('capacity', 'enospc', `${what}: ${reasonOf(error)}`, options)
    : failure('domain', 'domain_unavailable', `${what}: ${reasonOf(error)}`, options);
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'no permission',
  EDQUOT: "the user's disk quota is used up",
  EIO: 'the storage reports an input/output error',
  ELOOP: 'a link stands where a file or directory is expected',
  EMFILE: 'this process has too many files open',
  ENOENT: 'it is not there',
  ENOSPC: 'the file system is full',
  ENOTDIR: 'something that is not a directory stands in the path',
  EPERM: 'not permitted',
  EROFS: 'the file system is mounted read-only',
};

/** Words for a reader, with the system call's own message behind them. */
export function reasonOf(error: SystemError): string {
  const words = reasons[error.code];
  return words === undefined ? error.message : `${words} (${error.message})`;
}

export function errorDetail(error: unknown): Detail {
  if (isSystemError(error)) return { errno: error.code, syscall: error.syscall, message: error.message };
  return { message: error instanceof Error ? error.message : String(error) };
}

/** A lock that stayed held: `active_build_timeout`, retryable. The owner was not disturbed. */
export function lockTimeoutFailure(
  error: LockTimeout,
  stage: 'lookup' | 'production' | 'lifecycle',
): Failure {
  return failure(
    stage,
    'active_build_timeout',
    `${error.message}. Its owner was not disturbed: try again later, or see who holds it with the locks command.`,
    { retryable: true, details: { lock: error.path } },
  );
}

/** What taking a lock can throw, as a failure; anything else is rethrown. */
export function lockFailure(error: unknown, stage: 'lookup' | 'production'): Failure {
  if (error instanceof LockTimeout) return lockTimeoutFailure(error, stage);
  if (!isSystemError(error)) throw error;
  // Whatever kept the lock away, no space included, it is the domain that can't be used: the package's rule.
  return failure('domain', 'domain_unavailable', `cannot take a lock of the store: ${reasonOf(error)}`, {
    retryable: true,
    details: { errno: error.code },
  });
}
