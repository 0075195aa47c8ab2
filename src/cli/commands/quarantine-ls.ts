/** `weightroom quarantine ls`: what was taken out of service, and why. */
import { storedIdentities } from '../../store/stored-identity.ts';
import { storeOutcome } from '../../host/stores.ts';
import { inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count, summaryDocument, summaryOf } from '../documents.ts';
import { formatMoment, isoMoment } from '../durations.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { printable } from '../printable.ts';
import { table } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: `Quarantined bytes count towards the store's limit until they are removed with \`weightroom quarantine rm\`.
With --quiet: the names, one a line.`,
  example: 'weightroom quarantine ls /var/lib/weights',
  run,
};

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const { entries, identities } = valueOf(
    await storeOutcome('the store cannot be listed', async () => {
      const listed = (await inventory(domain)).entries.filter(({ state }) => state === 'quarantined');
      return { entries: listed, identities: await storedIdentities(domain, listed) };
    }),
  );
  const bytes = entries.reduce((total, entry) => total + entry.bytes, 0);
  const rows = entries.map((entry, index) => [
    entry.name,
    entry.reason ?? '?',
    formatSize(entry.bytes),
    summaryOf(identities[index]?.identity ?? null).model,
    formatMoment(entry.modifiedNs),
  ]);
  const columns = [
    { title: 'NAME' },
    { title: 'REASON' },
    { title: 'SIZE', align: 'right' },
    { title: 'MODEL' },
    { title: 'MODIFIED' },
  ] as const;
  output.result({
    document: {
      root: domain.root,
      bytes,
      entries: entries.map((entry, index) => ({
        name: entry.name,
        key: entry.key,
        reason: entry.reason,
        bytes: entry.bytes,
        modified: isoMoment(entry.modifiedNs),
        ...summaryDocument(identities[index]?.identity ?? null),
      })),
    },
    text:
      entries.length === 0
        ? 'Nothing is in quarantine.'
        : `${table(columns, rows)}\n\n${count(entries.length, 'entry', 'entries')}, ${formatSize(bytes)}.`,
    bare: entries.map(({ name }) => printable(name)).join('\n'),
  });
  return exitCodes.done;
}
