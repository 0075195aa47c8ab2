/**
 * From words to a command's arguments. What is not known is refused with the nearest thing that is.
 */
import { parseArgs } from 'node:util';
import { wrongUse } from './wrong-use.ts';

export interface OptionSpec {
  /** Placeholder of the value; an option without one is a switch. */
  readonly value?: string;
  readonly short?: string;
  readonly help: string;
  /** The only values there are. */
  readonly choices?: readonly string[];
}

export interface PositionalSpec {
  readonly name: string;
  readonly required: boolean;
  /** Takes all that follow. */
  readonly many?: boolean;
}

export interface ArgumentSpec {
  readonly positionals: readonly PositionalSpec[];
  readonly options: Readonly<Record<string, OptionSpec>>;
}

/** Every command has these. */
export const commonOptions: Readonly<Record<string, OptionSpec>> = {
  json: { help: 'print JSON on stdout and nothing else there' },
  quiet: { short: 'q', help: 'print the bare answer and failures only' },
  help: { short: 'h', help: 'show this text' },
};

export class Arguments {
  readonly positionals: readonly string[];
  readonly #values: ReadonlyMap<string, string>;

  constructor(positionals: readonly string[], values: ReadonlyMap<string, string>) {
    this.positionals = positionals;
    this.#values = values;
  }

  flag(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** One that the command's specification requires. */
  positional(index: number): string {
    const value = this.positionals[index];
    if (value === undefined) throw new RangeError(`there is no argument ${index}`);
    return value;
  }
}

/** Throws FailureError (wrong use). */
export function parseArguments(words: readonly string[], spec: ArgumentSpec): Arguments {
  const options = { ...spec.options, ...commonOptions };
  const { tokens } = parseArgs({
    args: [...words],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value, short }]) => [
        name,
        { type: value === undefined ? 'boolean' : 'string', ...(short === undefined ? {} : { short }) },
      ]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    if (option === undefined) throw unknownOption(token.rawName, Object.keys(options));
    values.set(token.name, valueOf(token.rawName, option, token.value, token.inlineValue === true));
  }
  // Whoever asks for help need not have got the rest right.
  if (!values.has('help')) checkPositionals(positionals, spec.positionals);
  return new Arguments(positionals, values);
}

function valueOf(name: string, option: OptionSpec, value: string | undefined, inline: boolean): string {
  if (option.value === undefined) {
    if (inline) throw wrongUse(`${name} takes no value.`);
    return '';
  }
  if (value === undefined || value === '' || (!inline && value.startsWith('--'))) {
    throw wrongUse(`${name} needs a value: ${name} ${option.value}.`);
  }
  if (option.choices !== undefined && !option.choices.includes(value)) {
    throw wrongUse(`${name} is ${option.choices.join(' or ')}, not ${JSON.stringify(value)}.`);
  }
  return value;
}

function unknownOption(name: string, known: readonly string[]): Error {
  const near = nearest(name.replace(/^-+/, ''), known);
  return wrongUse(`there is no option ${name}${near === undefined ? '' : `; did you mean --${near}?`}.`);
}

function checkPositionals(given: readonly string[], specs: readonly PositionalSpec[]): void {
  const missing = specs.slice(given.length).find(({ required }) => required);
  if (missing !== undefined) throw wrongUse(`<${missing.name}> is missing.`);
  if (specs.at(-1)?.many !== true && given.length > specs.length) {
    throw wrongUse(`${JSON.stringify(given[specs.length])} is one argument too many.`);
  }
  const empty = specs.find((_, index) => given[index] === '');
  if (empty !== undefined) throw wrongUse(`<${empty.name}> is empty.`);
}

/** A number of seconds, or throws FailureError (wrong use). */
export function parseSeconds(text: string, what: string): number {
  const seconds = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || !Number.isFinite(seconds)) {
    throw wrongUse(`${what} is a number of seconds, 0 or more, not ${JSON.stringify(text)}.`);
  }
  return seconds;
}

/** The known word that was probably meant; undefined when none is close. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const scored = known.map((candidate) => ({ candidate, distance: editDistance(word, candidate) }));
  scored.sort((a, b) => a.distance - b.distance);
  const [best] = scored;
  if (best !== undefined && best.distance <= Math.max(1, Math.floor(word.length / 3))) return best.candidate;
  return word.length >= 2 ? known.find((candidate) => candidate.startsWith(word)) : undefined;
}

/** Insertions, deletions, replacements and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i, ...new Array<number>(b.length).fill(0)]);
  for (let j = 0; j <= b.length; j += 1) (rows[0] as number[])[j] = j;
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) best = Math.min(best, at(i - 2, j - 2) + 1);
      (rows[i] as number[])[j] = best;
    }
  }
  return at(a.length, b.length);
}
