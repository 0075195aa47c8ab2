/** `weightroom domain show`: what a store is, what it allows, how full it is. */
import { storeOutcome } from '../../host/stores.ts';
import { inventory, type EntryState, type Inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count, domainDocument, domainFields } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { fields } from '../table.ts';
import { stateTotals, totalsDocument } from '../totals.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  example: 'weightroom domain show /var/lib/weights',
  run,
};

const states: readonly EntryState[] = ['ready', 'denied', 'quarantined', 'temporary'];

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const listed = valueOf(await storeOutcome('the store cannot be listed', () => inventory(domain)));
  output.result({
    document: { ...domainDocument(domain), ...totalsDocument(listed) },
    text: fields([...domainFields(domain), ...usage(listed)]),
  });
  return exitCodes.done;
}

function usage(listed: Inventory): (readonly [string, string])[] {
  const totals = stateTotals(listed);
  return [
    ['holds', formatSize(listed.storeBytes)],
    ...states.map((state) => [`  ${state}`, entries(totals[state])] as const),
    ['  other', `${formatSize(totals.otherBytes)} (documents, locks and what is not an artifact)`],
    ['free on disk', formatSize(listed.filesystemFreeBytes)],
  ];
}

function entries({ entries: number, bytes }: { entries: number; bytes: number }): string {
  return number === 0 ? 'none' : `${formatSize(bytes)} in ${count(number, 'entry', 'entries')}`;
}
