/** `weightroom domain create`: makes a store, or finds it there with the same policy. */
import { createStore, serializedNotice } from '../../host/stores.ts';
import { scopes, type StorageScope } from '../../store/domain.ts';
import { admissions, type BuildAdmission } from '../../store/policy.ts';
import type { Arguments } from '../arguments.ts';
import type { Command, Invocation } from '../command.ts';
import { domainDocument, domainFields } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { parseSize } from '../sizes.ts';
import { rootArgument, valueOf } from '../store-arguments.ts';
import { fields } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument],
  options: {
    admission: {
      value: 'HOW',
      choices: [...admissions].reverse(),
      help: 'whether builds of different keys take turns (default concurrent)',
    },
    'max-store': { value: 'SIZE', help: 'the most bytes that the store may hold (serialized needs it)' },
    'max-artifact': { value: 'SIZE', help: 'the most bytes of one artifact' },
    'min-free': { value: 'SIZE', help: 'bytes to leave free on the file system (default 0)' },
    scope: { value: 'SCOPE', choices: scopes, help: 'what the store belongs to (default node)' },
    'domain-id': { value: 'ID', help: 'name within the scope (default node)' },
  },
  details: `The policy of a store never changes: opting into something else takes a new folder. With the same policy
the command succeeds again and again. Sizes are written as 192GiB, 1.5TB or in bytes.

serialized: builds are admitted one at a time, so that together they cannot pass --max-store.
${serializedNotice.split('. ')[1] ?? ''}`,
  example: 'weightroom domain create /var/lib/weights --admission serialized --max-store 192GiB',
  run,
};

async function run({ arguments: given, output, env }: Invocation): Promise<ExitCode> {
  const { domain, existing } = valueOf(
    await createStore(
      {
        root: given.positional(0),
        admission: (given.text('admission') ?? 'concurrent') as BuildAdmission,
        scope: (given.text('scope') ?? 'node') as StorageScope,
        domainId: given.text('domain-id') ?? 'node',
        capacity: {
          maxStoreBytes: size(given, 'max-store'),
          maxArtifactBytes: size(given, 'max-artifact'),
          minFreeBytes: size(given, 'min-free') ?? 0,
        },
      },
      env,
    ),
  );
  const notice = domain.admission === 'serialized' ? serializedNotice : null;
  output.result({
    document: { ...domainDocument(domain), existing, notice },
    text: [
      existing ? `The store was there already, with this policy.` : `Made the store.`,
      fields(domainFields(domain), '  '),
      ...(notice === null ? [] : [`Note: ${notice}`]),
    ].join('\n'),
  });
  return exitCodes.done;
}

function size(given: Arguments, name: string): number | null {
  const text = given.text(name);
  return text === undefined ? null : parseSize(text, `--${name}`);
}
