/** `weightroom index rebuild`: forgets what the catalog knows of a store and reads the store anew. */
import { storeOutcome } from '../../host/stores.ts';
import { withCatalog } from '../../host/with-catalog.ts';
import { inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count, milliseconds } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: 'The store itself is only read. Other stores in the catalog stay as they are.',
  example: 'weightroom index rebuild /var/lib/weights',
  run,
};

async function run({ arguments: given, output, env }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const started = performance.now();
  const entries = valueOf(
    await storeOutcome('the store cannot be read', () =>
      withCatalog(env, async (catalog) => {
        const listed = await inventory(domain);
        await catalog.rebuild(domain, listed);
        if (catalog.problem !== null) output.note(catalog.problem);
        return listed.entries.length;
      }),
    ),
  );
  output.result({
    document: { root: domain.root, entries, elapsed_ms: milliseconds(performance.now() - started) },
    text: `Read ${count(entries, 'entry', 'entries')} of ${domain.root} anew.`,
  });
  return exitCodes.done;
}
