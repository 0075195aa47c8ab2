/** `weightroom index check`: every entry of a store read anew and compared with the catalog. */
import type { CatalogDifference } from '../../host/with-catalog.ts';
import { storeOutcome } from '../../host/stores.ts';
import { withCatalog } from '../../host/with-catalog.ts';
import { inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { table } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: `Changes nothing. \`outdated\` entries changed since the catalog last looked, and the next look reads them; \`wrong\`
ones did not, and are a reason for \`weightroom index rebuild\` and exit code 3.`,
  example: 'weightroom index check /var/lib/weights',
  run,
};

async function run({ arguments: given, output, env }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const differences = valueOf(
    await storeOutcome('the store cannot be read', () =>
      withCatalog(env, async (catalog) => {
        if (catalog.problem !== null) output.note(catalog.problem);
        return await catalog.check(domain, await inventory(domain));
      }),
    ),
  );
  const wrong = differences.filter(({ kind }) => kind === 'wrong').length;
  output.result({
    document: {
      root: domain.root,
      wrong,
      outdated: differences.length - wrong,
      differences: differences.map(({ entry, kind, field, catalog, disk }) => ({
        entry,
        kind,
        field,
        catalog,
        disk,
      })),
    },
    text: textOf(differences, wrong),
  });
  return wrong === 0 ? exitCodes.done : exitCodes.failed;
}

function textOf(differences: readonly CatalogDifference[], wrong: number): string {
  if (differences.length === 0) return 'The catalog is what the store is.';
  const columns = [
    { title: 'ENTRY' },
    { title: 'KIND' },
    { title: 'FIELD' },
    { title: 'CATALOG' },
    { title: 'DISK' },
  ] as const;
  const rows = differences.map(({ entry, kind, field, catalog, disk }) => [
    entry,
    kind,
    field,
    catalog ?? 'nothing',
    disk ?? 'nothing',
  ]);
  return `${table(columns, rows)}\n\n${count(differences.length, 'difference')}, ${wrong} of them wrong.`;
}
