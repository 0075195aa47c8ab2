/** What a command is: its words, its arguments, and what it does with the sink. */
import type { Arguments, ArgumentSpec } from './arguments.ts';
import type { ExitCode } from './exit-codes.ts';
import type { JsonDocument } from './json-document.ts';
import type { Output } from './output.ts';

export interface Invocation {
  readonly arguments: Arguments;
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Fires on Ctrl+C and on a request to end, for commands that are `interruptible`. */
  readonly signal: AbortSignal;
}

export interface Command extends ArgumentSpec {
  /** Paragraphs of the help text below the summary. */
  readonly details?: string;
  /** A whole line that can be copied. */
  readonly example: string;
  /** Ends by itself, cleanly and soon, when the signal fires. Any other command is simply ended. */
  readonly interruptible?: boolean;
  /** Throws FailureError for a failure, Interrupted when the signal ended it. Anything else is a bug. */
  run(invocation: Invocation): Promise<ExitCode>;
}

/** The signal ended the command before it was done; the message says what that leaves. */
export class Interrupted extends Error {
  /** What was done so far, for --json; the failure is added to it. */
  readonly document: JsonDocument;

  constructor(message: string, document: JsonDocument = {}) {
    super(message);
    this.name = 'Interrupted';
    this.document = document;
  }
}
