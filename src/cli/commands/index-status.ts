/** `weightroom index status`: where the catalog is and what it knows of a store. */
import { statSync } from 'node:fs';
import { withCatalog } from '../../host/with-catalog.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument } from '../store-arguments.ts';
import { fields } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {},
  details: `The catalog keeps what was read from stores, so that the next look reads only what changed. Deleting it loses
nothing but time.`,
  example: 'weightroom index status /var/lib/weights',
  run,
};

async function run({ arguments: given, output, env }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const found = await withCatalog(env, async (catalog) => {
    const { entries, manifests, structures } = await catalog.status(domain);
    const { path, isKept, problem } = catalog;
    const sizeBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    return { path, isKept, problem, sizeBytes, entries, manifests, structures };
  });
  output.result({
    document: {
      root: domain.root,
      path: found.path,
      usable: found.isKept,
      problem: found.problem,
      file_bytes: found.sizeBytes,
      entries: found.entries,
      manifests: found.manifests,
      tensor_lists: found.structures,
    },
    text: fields([
      ['file', `${found.path} (${formatSize(found.sizeBytes)} for all stores)`],
      ['usable', found.isKept ? 'yes' : 'no'],
      ['problem', found.problem],
      ['entries', String(found.entries)],
      ['manifests', `${found.manifests} with ${found.structures} different lists of tensors`],
    ]),
  });
  return exitCodes.done;
}
