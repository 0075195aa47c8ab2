/** Help texts, all made from the commands' own descriptions. */
import { commonOptions, type OptionSpec, type PositionalSpec } from './arguments.ts';
import type { Command } from './command.ts';
import { commandTable, type CommandEntry } from './command-table.ts';

export const exitCodeHelp = `Exit codes:
  0    done
  1    a bug in weightroom
  2    wrong use: the command itself has to change
  3    a failure that trying again won't cure
  4    a failure that trying again can cure
  130  interrupted`;

export function overview(entries: readonly CommandEntry[] = commandTable): string {
  const width = Math.max(...entries.map(({ name }) => name.length));
  const list = entries.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n');
  return `weightroom: see, build, verify and clean the host-weight stores that vLLM-Omni workers share.

Usage: weightroom <command> [arguments] [--json] [--quiet]

Commands:
${list}

Each command has --help with an example.
Example: weightroom sample

${exitCodeHelp}`;
}

export function commandHelp({ name, summary }: CommandEntry, command: Command): string {
  const options = Object.entries({ ...command.options, ...commonOptions }).map(optionLine);
  const width = Math.max(...options.map(([left]) => left.length));
  return [
    `weightroom ${name}: ${summary}.`,
    `Usage: weightroom ${name}${command.positionals.map(positionalText).join('')} [options]`,
    ...(command.details === undefined ? [] : [command.details]),
    `Options:\n${options.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')}`,
    `Example:\n  ${command.example}`,
  ].join('\n\n');
}

function positionalText({ name, required, many }: PositionalSpec): string {
  const text = many === true ? `${name}...` : name;
  return required ? ` <${text}>` : ` [${text}]`;
}

function optionLine([name, { value, short, help, choices }]: [string, OptionSpec]): [string, string] {
  const left = `--${name}${value === undefined ? '' : ` ${choices?.join('|') ?? value}`}`;
  return [short === undefined ? left : `-${short}, ${left}`, help];
}
