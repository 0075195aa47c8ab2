/** `weightroom quarantine rm`: removes quarantined entries by name, or all of them. Each is told by itself. */
import { type Failure } from '../../contract/failure.ts';
import { storeOutcome } from '../../host/stores.ts';
import { cleanupQuarantined } from '../../store/cleanup.ts';
import { inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count } from '../documents.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import { printable } from '../printable.ts';
import { meantName } from '../quarantine-names.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { wrongUse } from '../wrong-use.ts';

export const command: Command = {
  positionals: [rootArgument, { name: 'name', required: false, many: true }],
  options: { all: { help: 'remove every quarantined entry' } },
  details: `Names are those that \`weightroom quarantine ls\` shows, or as much of their beginning as is unique. Published
artifacts are not touched. An entry whose key is being built or used stays, with exit code 4.`,
  example: 'weightroom quarantine rm /var/lib/weights --all',
  run,
};

interface RemovedEntry {
  readonly name: string;
  readonly removed: boolean;
  readonly removedBytes: number;
  readonly failure: Failure | null;
}

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const listed = valueOf(await storeOutcome('the store cannot be listed', () => inventory(domain)));
  const present = listed.entries.flatMap(({ state, name }) => (state === 'quarantined' ? [name] : []));
  const names = chosenNames(given.positionals.slice(1), given.flag('all'), present);
  const results: RemovedEntry[] = [];
  for (const name of names) {
    const outcome = await cleanupQuarantined(domain, name);
    results.push(
      outcome.ok
        ? { name, ...outcome.value, failure: null }
        : { name, removed: false, removedBytes: 0, failure: outcome.failure },
    );
  }
  const failures = results.flatMap(({ failure }) => failure ?? []);
  const worst = failures.find(({ retryable }) => !retryable) ?? failures[0] ?? null;
  const bytes = results.reduce((total, { removedBytes }) => total + removedBytes, 0);
  output.result({
    document: {
      root: domain.root,
      removed_bytes: bytes,
      entries: results.map(({ name, removed, removedBytes, failure }) => ({
        name,
        removed,
        removed_bytes: removedBytes,
        failure,
      })),
      failure: worst,
    },
    text: [
      ...results.map(lineOf),
      `${count(results.filter(({ removed }) => removed).length, 'entry', 'entries')} removed: ${formatSize(bytes)}.`,
    ].join('\n'),
    problems: results.filter(({ failure }) => failure !== null).map(lineOf),
  });
  return worst === null ? exitCodes.done : exitCodeOf(worst);
}

function lineOf({ name, removed, removedBytes, failure }: RemovedEntry): string {
  const shown = printable(name);
  if (failure !== null) return `${shown}: ${failure.message}`;
  return removed ? `${shown}: removed, ${formatSize(removedBytes)}` : `${shown}: was not there`;
}

function chosenNames(words: readonly string[], all: boolean, present: readonly string[]): readonly string[] {
  if (all && words.length > 0) throw wrongUse('give names or --all, not both.');
  if (all) return present;
  if (words.length === 0) throw wrongUse('which entries? Give their names, or --all for every one.');
  return [...new Set(words.map((word) => meantName(word, present)))];
}
