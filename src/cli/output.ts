/**
 * The one sink of the command line. A command hands over its result once, in all its forms, and this decides
 * what goes where:
 *   people   the text on stdout, notes and progress on stderr;
 *   --json   the document on stdout and nothing else there; progress on stderr;
 *   --quiet  the bare answer on stdout (a key, names), failures on stderr, nothing else.
 * Text from disk that a command did not escape is escaped here, so no name can act on a terminal.
 */
import type { Failure } from '../contract/failure.ts';
import { encodeDocument, type JsonDocument } from './json-document.ts';
import { printableLines } from './printable.ts';
import {
  ProgressDisplay,
  type ProgressReport,
  type ProgressStyle,
  type TextStream,
} from './progress-display.ts';

export interface OutputMode {
  readonly json: boolean;
  readonly quiet: boolean;
}

export interface CommandResult {
  /** For --json. */
  readonly document: JsonDocument;
  /** For people. */
  readonly text: string;
  /** For --quiet; left out where there is nothing that a script would ask for. */
  readonly bare?: string;
  /** What went wrong in a result that is otherwise one: told on stderr where the text is not shown. */
  readonly problems?: readonly string[];
}

export class Output {
  readonly mode: OutputMode;
  readonly #stdout: TextStream;
  readonly #stderr: TextStream;
  readonly #progress: ProgressDisplay;

  constructor(mode: OutputMode, stdout: TextStream, stderr: TextStream) {
    this.mode = mode;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#progress = new ProgressDisplay(stderr, progressStyle(mode, stderr));
  }

  result({ document, text, bare, problems = [] }: CommandResult): void {
    this.#progress.clear();
    if (this.mode.json) this.#stdout.write(`${encodeDocument(document)}\n`);
    else if (!this.mode.quiet) this.#stdout.write(`${printableLines(text)}\n`);
    else {
      if (bare !== undefined && bare !== '') this.#stdout.write(`${printableLines(bare)}\n`);
      for (const problem of problems) this.#stderr.write(`${printableLines(problem)}\n`);
    }
  }

  /** Something for people to know while a command runs or beside its result. */
  note(text: string): void {
    if (this.mode.json || this.mode.quiet) return;
    this.#progress.clear();
    this.#stderr.write(`${printableLines(text)}\n`);
  }

  progress(report: ProgressReport): void {
    this.#progress.show(report);
  }

  /** `document` replaces the plain one where a command's result has a form of its own for failing. */
  failure(value: Failure, command: string, document: JsonDocument = { failure: value }): void {
    this.#progress.clear();
    if (this.mode.json) this.#stdout.write(`${encodeDocument(document)}\n`);
    else this.#stderr.write(`${printableLines(failureText(value, command))}\n`);
  }

  /** Not a failure of the store or of the person but of this program. */
  bug(error: unknown, command: string): void {
    this.#progress.clear();
    const message = error instanceof Error ? error.message : String(error);
    const stack = error instanceof Error ? (error.stack ?? message) : message;
    if (this.mode.json) this.#stdout.write(`${encodeDocument(bugDocument(message))}\n`);
    this.#stderr.write(
      printableLines(
        `weightroom ${command}: this is a bug in weightroom: ${message}\nPlease report it with these lines:\n${stack}\n`,
      ),
    );
  }
}

function progressStyle({ json, quiet }: OutputMode, stderr: TextStream): ProgressStyle {
  if (quiet) return 'none';
  if (stderr.isTTY === true) return 'terminal';
  return json ? 'documents' : 'log';
}

function failureText(value: Failure, command: string): string {
  const where = `weightroom${command === '' ? '' : ` ${command}`}`;
  if (value.code === 'invalid_config') return `${where}: ${value.message}`;
  const listed = listedProblems(value);
  const again = value.retryable ? 'trying again can help' : 'trying again does not help by itself';
  return [`${where}: ${value.message}`, ...listed, `  (${value.code} in ${value.stage}; ${again})`].join(
    '\n',
  );
}

const mostProblems = 20;

/** A checkpoint's failure carries everything that was found; its message names the first only. */
function listedProblems({ details: { problems } }: Failure): string[] {
  if (!Array.isArray(problems) || problems.length < 2) return [];
  const messages = (problems as readonly { readonly message?: unknown }[]).flatMap(({ message }) =>
    typeof message === 'string' ? [`  - ${message}`] : [],
  );
  const left = messages.length - mostProblems;
  return left > 0 ? [...messages.slice(0, mostProblems), `  and ${left} more`] : messages;
}

/** A document in the shape of a failure, so that a program which reads stdout finds one there in every case. */
function bugDocument(message: string): JsonDocument {
  return {
    failure: {
      stage: 'lifecycle',
      code: 'unsupported',
      retryable: false,
      message: `a bug in weightroom: ${message}`,
      details: { bug: true },
    },
  };
}
