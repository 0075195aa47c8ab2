/** `weightroom gpu flags`: what to give vLLM-Omni for the modes that are set. */
import type { Command, Invocation } from '../command.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import { cudaLibraryOption, meantGpu, withGpus } from '../gpu-arguments.ts';
import { FailureError } from '../../contract/failure.ts';

export const command: Command = {
  positionals: [{ name: 'gpu', required: false, many: true }],
  options: cudaLibraryOption,
  details: 'Without a GPU: for all of them. With --quiet: the flags alone.',
  example: 'weightroom gpu flags 0 1',
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  const { arguments: given, output } = invocation;
  try {
    const { gpus, flags, remarks } = await withGpus(invocation, async (registry) => {
      const meant = await Promise.all(given.positionals.map(async (text) => await meantGpu(registry, text)));
      const listing = meant.length > 0 ? null : await registry.list();
      if (listing?.failure && listing.gpus.length === 0) throw new FailureError(listing.failure);
      const uuids = (listing?.gpus ?? meant).map(({ uuid }) => uuid);
      return { gpus: uuids, ...registry.flags(uuids) };
    });
    output.result({
      document: { gpus, flags: flags.flatMap((flag) => flag.split(' ')), remarks },
      text: [flags.join(' \\\n  '), '', ...remarks].join('\n'),
      bare: flags.join(' '),
    });
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof FailureError)) throw error;
    output.failure(error.failure, 'gpu flags');
    return exitCodeOf(error.failure);
  }
}
