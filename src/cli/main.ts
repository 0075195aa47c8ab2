/**
 * From the words of a command line to an exit code: finds the command, gives it its arguments and the sink,
 * and turns whatever it throws into words. Commands parse, call and print; the rest is here.
 */
import { readFileSync } from 'node:fs';
import { FailureError, failure, type Failure } from '../contract/failure.ts';
import { nearest, parseArguments } from './arguments.ts';
import { Interrupted } from './command.ts';
import { commandGroups, commandTable, type CommandEntry } from './command-table.ts';
import { exitCodeOf, exitCodes, type ExitCode } from './exit-codes.ts';
import { commandHelp, overview } from './help.ts';
import { Interruption } from './interruption.ts';
import { Output } from './output.ts';
import { WrongUse, wrongUse } from './wrong-use.ts';

/** Runs the process's own command line and sets its exit code. */
export async function main(): Promise<void> {
  outliveOutputs();
  const words = process.argv.slice(2);
  const output = new Output(modeOf(words), process.stdout, process.stderr);
  process.exitCode = await run(words, output);
}

/**
 * A reader that has seen enough (`| head`) is not an error, and an output that can't be written (a full disk
 * under a log) is no reason to end a build: what was asked for goes on, and the exit code tells of the rest.
 */
function outliveOutputs(): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`weightroom: the answer could not be written: ${error.message}\n`);
    process.once('exit', () => {
      process.exitCode = exitCodes.retryable;
    });
  });
}

/** Known before anything is parsed, so that a mistake in the words is told in the right form too. */
function modeOf(words: readonly string[]): { json: boolean; quiet: boolean } {
  const end = words.indexOf('--');
  const options = end < 0 ? words : words.slice(0, end);
  return {
    json: options.includes('--json'),
    quiet: options.some((word) => word === '--quiet' || word === '-q'),
  };
}

async function run(words: readonly string[], output: Output): Promise<ExitCode> {
  let name = '';
  try {
    const request = findCommand(words);
    if (request === 'version') return printVersion(output);
    if ('overview' in request) return printText(output, overview(request.overview));
    name = request.entry.name;
    await checkAddon();
    const { command } = await request.entry.load();
    const parsed = parseArguments(request.words, command);
    if (parsed.flag('help')) return printText(output, commandHelp(request.entry, command));
    const interruption = new Interruption(command.interruptible ?? false, () => {
      output.failure(interruptedFailure('It was interrupted.'), name);
    });
    return await command
      .run({ arguments: parsed, output, env: process.env, signal: interruption.signal })
      .finally(() => interruption.end());
  } catch (error) {
    return tell(error, output, name);
  }
}

function tell(error: unknown, output: Output, name: string): ExitCode {
  if (error instanceof FailureError) {
    output.failure(error.failure, name);
    if (error instanceof WrongUse) output.note(`See: weightroom ${name === '' ? '' : `${name} `}--help`);
    return exitCodeOf(error.failure);
  }
  if (error instanceof Interrupted) {
    const value = interruptedFailure(error.message);
    output.failure(value, name, { ...error.document, failure: value });
    return exitCodes.interrupted;
  }
  output.bug(error, name);
  return exitCodes.bug;
}

/** There is no code for it, because it happens to the command and not to the store. */
function interruptedFailure(message: string): Failure {
  return failure('lifecycle', 'unsupported', message, { retryable: true, details: { interrupted: true } });
}

type Request =
  | 'version'
  | { readonly overview: readonly CommandEntry[] }
  | { readonly entry: CommandEntry; readonly words: readonly string[] };

/** `--json` and the like may stand before the command's name. Throws FailureError (wrong use). */
function findCommand(words: readonly string[]): Request {
  const at = words.findIndex((word) => !word.startsWith('-'));
  const leading = at < 0 ? words : words.slice(0, at);
  if (leading.includes('--version')) return 'version';
  const [first, second, ...rest] = at < 0 ? [] : words.slice(at);
  if (first === undefined) return withoutCommand(leading);
  if (first === 'help') return helpFor([second, ...rest].filter((word) => word !== undefined));
  if (!commandGroups.includes(first)) {
    return { entry: entryNamed(first), words: [...leading, ...words.slice(at + 1)] };
  }
  const group = commandTable.filter(({ name }) => name.startsWith(`${first} `));
  if (second === '--help' || second === '-h') return { overview: group };
  if (second === undefined || second.startsWith('-')) {
    throw wrongUse(
      `"${first}" needs a second word: ${group.map(({ name }) => name.split(' ')[1]).join(' or ')}.`,
    );
  }
  return { entry: entryNamed(`${first} ${second}`), words: [...leading, ...rest] };
}

function withoutCommand(leading: readonly string[]): Request {
  if (leading.includes('--help') || leading.includes('-h')) return { overview: commandTable };
  throw wrongUse('a command is missing. `weightroom --help` lists them.');
}

function helpFor(words: readonly string[]): Request {
  const named = words.filter((word) => !word.startsWith('-')).join(' ');
  if (named === '') return { overview: commandTable };
  const group = commandTable.filter(({ name }) => name.startsWith(`${named} `));
  return group.length > 0 ? { overview: group } : { entry: entryNamed(named), words: ['--help'] };
}

function entryNamed(name: string): CommandEntry {
  const entry = commandTable.find((candidate) => candidate.name === name);
  if (entry !== undefined) return entry;
  const near = nearest(
    name,
    commandTable.map((candidate) => candidate.name),
  );
  const hint = near === undefined ? '`weightroom --help` lists them.' : `Did you mean "${near}"?`;
  throw wrongUse(`there is no command ${JSON.stringify(name)}. ${hint}`);
}

function printText(output: Output, text: string): ExitCode {
  output.result({ document: { help: text }, text, bare: text });
  return exitCodes.done;
}

function printVersion(output: Output): ExitCode {
  const path = new URL('../../package.json', import.meta.url);
  const { version } = JSON.parse(readFileSync(path, 'utf8')) as { version: string };
  output.result({ document: { version }, text: version, bare: version });
  return exitCodes.done;
}

/** Every command needs the addon; that it was not built is said in words and not as a bug. */
async function checkAddon(): Promise<void> {
  try {
    const { native } = await import('#native');
    endWithLauncher(native.setParentDeathSignal.bind(native));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : null;
    throw new FailureError(failure('configuration', 'unsupported', message, { details: { cause } }));
  }
}

/** Where the launcher runs beside us (an old Node started it), its sudden death must not leave us behind. */
function endWithLauncher(setParentDeathSignal: (signal: number) => void): void {
  const launcher = process.env['WEIGHTROOM_LAUNCHER_PID'];
  delete process.env['WEIGHTROOM_LAUNCHER_PID'];
  if (launcher === undefined || Number(launcher) !== process.ppid) return;
  const sigterm = 15;
  setParentDeathSignal(sigterm);
}
