/** What the exit code of every command means. Documented in the README and in `weightroom help`. */
import type { Failure } from '../contract/failure.ts';

export const exitCodes = {
  done: 0,
  bug: 1,
  /** Something about the command itself has to change. */
  wrongUse: 2,
  /** A retry won't cure it. */
  failed: 3,
  /** The same command can succeed later. */
  retryable: 4,
  /** Ctrl+C, or a request to end: 128 + SIGINT, as shells count it. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

export function exitCodeOf({ code, retryable }: Failure): ExitCode {
  if (code === 'invalid_config') return exitCodes.wrongUse;
  return retryable ? exitCodes.retryable : exitCodes.failed;
}
