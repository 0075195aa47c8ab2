/** Wrong use of the command line: told without a stack, with exit code 2. */
import { failure, FailureError } from '../contract/failure.ts';

/** The words of the command have to change, so its help is worth a look. */
export class WrongUse extends FailureError {}

/** `message` says what is wrong and what to do. */
export function wrongUse(
  message: string,
  details: Record<string, string | readonly string[]> = {},
): WrongUse {
  return new WrongUse(failure('configuration', 'invalid_config', message, { details }));
}
