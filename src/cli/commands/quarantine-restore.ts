/** `weightroom quarantine restore`: puts an entry back that verifies in full, where its key is free. */
import { newProgress } from '#native';
import { storeOutcome } from '../../host/stores.ts';
import { inventory } from '../../store/inventory.ts';
import { restoreQuarantined, type Restoration } from '../../store/restore.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { meantName } from '../quarantine-names.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';

export const command: Command = {
  positionals: [rootArgument, { name: 'entry', required: true }],
  options: {},
  details: `The entry is one that \`weightroom quarantine ls\` shows, or as much of its beginning as is unique. Every byte of it is
hashed first: only what is whole goes back, and only where no artifact has its key. What was quarantined because
the same identity came out with other content is not restored.`,
  example: 'weightroom quarantine restore /var/lib/weights 3f9a1c',
  interruptible: true,
  run,
};

async function run({ arguments: given, output, signal }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const listed = valueOf(await storeOutcome('the store cannot be listed', () => inventory(domain)));
  const entries = listed.entries.filter(({ state }) => state === 'quarantined');
  const name = meantName(
    given.positional(1),
    entries.map((entry) => entry.name),
  );
  const bytes = entries.find((entry) => entry.name === name)?.bytes ?? 0;
  const { key, payloadBytes } = await withMeter(output, bytes, signal, async (progress) =>
    valueOf(await restoreQuarantined(domain, name, { signal, progress })),
  );
  output.result({
    document: { root: domain.root, key, name, payload_bytes: payloadBytes, failure: null },
    text: `Restored artifact ${key}: ${formatSize(payloadBytes)} verified in full.`,
    bare: key,
  });
  return exitCodes.done;
}

async function withMeter(
  output: Output,
  totalBytes: number,
  signal: AbortSignal,
  work: (progress: BigInt64Array) => Promise<Restoration>,
): Promise<Restoration> {
  const progress = newProgress();
  const show = (): void => {
    const doneBytes = Math.min(Number(Atomics.load(progress, 0)), totalBytes);
    output.progress({ phase: 'hashing', doneBytes, totalBytes, bytesPerSecond: null, secondsLeft: null });
  };
  const timer = setInterval(show, 100);
  try {
    return await work(progress);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Interrupted('Interrupted. Nothing was changed: the entry is in quarantine.');
  } finally {
    clearInterval(timer);
  }
}
