/** `weightroom ls`: every entry of a store, whatever its state, and where all its bytes are. */
import { storedIdentities, type StoredIdentity } from '../../store/stored-identity.ts';
import { storeOutcome } from '../../host/stores.ts';
import type { Domain } from '../../store/domain.ts';
import { inventory, type Inventory, type InventoryEntry } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count, limit, shortKey, summaryDocument, summaryOf } from '../documents.ts';
import { formatMoment, isoMoment } from '../durations.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { table } from '../table.ts';
import { stateTotals, totalsDocument } from '../totals.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: `States: ready (published), denied (failed a check and is not served), quarantined (taken out of service),
temporary (a build in progress, or what a dead one left). A key can be ready and denied at once. Nothing is
checked here; \`weightroom verify\` does that. With --quiet: the keys of the ready artifacts, one a line.`,
  example: 'weightroom ls /var/lib/weights',
  run,
};

interface Listing {
  readonly domain: Domain;
  readonly listed: Inventory;
  readonly identities: readonly StoredIdentity[];
}

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const listing = valueOf(
    await storeOutcome('the store cannot be listed', async (): Promise<Listing> => {
      const listed = await inventory(domain);
      return { domain, listed, identities: await storedIdentities(domain, listed.entries) };
    }),
  );
  output.result({
    document: documentOf(listing),
    text: textOf(listing),
    bare: listing.listed.entries.flatMap(({ state, key }) => (state === 'ready' ? [key] : [])).join('\n'),
  });
  return exitCodes.done;
}

function documentOf({ domain, listed, identities }: Listing): JsonDocument {
  return {
    root: domain.root,
    max_store_bytes: domain.capacity.maxStoreBytes,
    min_free_bytes: domain.capacity.minFreeBytes,
    ...totalsDocument(listed),
    entries: listed.entries.map((entry, index) => entryDocument(entry, identities[index])),
    other: listed.other.map(({ path, bytes, allocatedBytes }) => ({
      path,
      bytes,
      allocated_bytes: allocatedBytes,
    })),
  };
}

function entryDocument(entry: InventoryEntry, stored: StoredIdentity | undefined): JsonDocument {
  return {
    key: entry.key,
    state: entry.state,
    name: entry.name,
    bytes: entry.bytes,
    allocated_bytes: entry.allocatedBytes,
    reason: entry.reason,
    invalidated: entry.invalidated,
    modified: isoMoment(entry.modifiedNs),
    ...summaryDocument(stored?.identity ?? null),
    problem: stored?.problem ?? null,
  };
}

function textOf(listing: Listing): string {
  const { domain, listed } = listing;
  if (listed.entries.length === 0)
    return `The store ${domain.root} has no artifacts yet.\n${totalsText(listing)}`;
  const rows = listed.entries.map((entry, index) => row(entry, listing.identities[index]));
  const columns = [
    { title: 'KEY' },
    { title: 'STATE' },
    { title: 'SIZE', align: 'right' },
    { title: 'MODEL' },
    { title: 'REPRESENTATION' },
    { title: 'TP RANK' },
    { title: 'MODIFIED' },
  ] as const;
  return `${table(columns, rows)}\n\n${totalsText(listing)}`;
}

function row(entry: InventoryEntry, stored: StoredIdentity | undefined): string[] {
  const { model, representation, tensorParallel } = summaryOf(stored?.identity ?? null);
  const problem = stored?.problem ?? null;
  return [
    shortKey(entry.key),
    stateWords(entry),
    formatSize(entry.bytes),
    problem === null ? model : `${model} (${problem})`,
    representation,
    tensorParallel,
    formatMoment(entry.modifiedNs),
  ];
}

function stateWords({ state, reason, invalidated }: InventoryEntry): string {
  if (invalidated && state === 'ready') return 'ready, but marked invalid';
  return reason === null ? state : `${state}: ${reason}`;
}

function totalsText({ domain, listed }: Listing): string {
  const totals = stateTotals(listed);
  const parts = (['ready', 'denied', 'quarantined', 'temporary'] as const)
    .filter((state) => totals[state].entries > 0)
    .map((state) => `${count(totals[state].entries, state, state)} ${formatSize(totals[state].bytes)}`);
  return [
    [...parts, `other ${formatSize(totals.otherBytes)}`].join(', '),
    `The store holds ${formatSize(listed.storeBytes)} (limit: ${limit(domain.capacity.maxStoreBytes)}); ${formatSize(listed.filesystemFreeBytes)} are free on its file system.`,
  ].join('\n');
}
