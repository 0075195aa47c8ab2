/** `weightroom remove`: removes an artifact, if nobody builds or uses it. */
import { storeOutcome } from '../../host/stores.ts';
import { cleanup } from '../../store/cleanup.ts';
import { inventory, type EntryState } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { formatSize } from '../sizes.ts';
import { keyArgument, meantKey, openedStore, rootArgument, valueOf } from '../store-arguments.ts';

export const command: Command = {
  positionals: [rootArgument, keyArgument],
  options: {},
  details: `Takes the artifact out of service first and then removes it, with its deny marker. It never waits for and
never interrupts anybody: an artifact that is being built or used stays, with exit code 4. Removing what is not
there succeeds. What was quarantined before stays (see \`weightroom quarantine\`).`,
  example: 'weightroom remove /var/lib/weights 3f9a1c',
  run,
};

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const { key } = await meantKey(domain, given.positional(1));
  const { removed, removedBytes } = valueOf(await cleanup(domain, key));
  const { entries } = valueOf(await storeOutcome('the store cannot be listed', () => inventory(domain)));
  const left = (state: EntryState): number =>
    entries.reduce(
      (total, entry) => total + (entry.key === key && entry.state === state ? entry.bytes : 0),
      0,
    );
  const stagedBytes = left('temporary');
  const quarantinedBytes = left('quarantined');
  output.result({
    document: {
      key,
      removed,
      removed_bytes: removedBytes,
      left_staged_bytes: stagedBytes,
      left_quarantined_bytes: quarantinedBytes,
    },
    text: [
      removed
        ? `Removed artifact ${key}: ${formatSize(removedBytes)}.`
        : `There was no artifact ${key}, and nothing to remove.`,
      ...(stagedBytes > 0
        ? [
            `${formatSize(stagedBytes)} of an unfinished build of it stay in tmp/; its next build clears them.`,
          ]
        : []),
      ...(quarantinedBytes > 0
        ? [`${formatSize(quarantinedBytes)} of it stay in quarantine/: see \`weightroom quarantine ls\`.`]
        : []),
    ].join('\n'),
  });
  return exitCodes.done;
}
