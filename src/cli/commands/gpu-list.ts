/** `weightroom gpu list`: the GPUs, and what is set for each. */
import type { Command, Invocation } from '../command.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import { cudaLibraryOption, gpuDocument, listingText, withGpus } from '../gpu-arguments.ts';

export const command: Command = {
  positionals: [],
  options: { rescan: { help: 'ask disabled GPUs too' }, ...cudaLibraryOption },
  details: `"registers" says whether the GPU can register pages that are mapped for reading only; without that workers
use bounded staging. The driver is asked in a process of its own, with a deadline. With --quiet: the UUIDs.`,
  example: 'weightroom gpu list',
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  const { arguments: given, output } = invocation;
  const listing = await withGpus(
    invocation,
    async (gpus) => await gpus.list({ rescan: given.flag('rescan') }),
  );
  const { gpus, library, simulated, driverVersion, driver, notes, failure } = listing;
  const document = {
    gpus: gpus.map(gpuDocument),
    library,
    simulated,
    cuda_version: driverVersion,
    driver,
    notes,
    ...(failure === null ? {} : { failure }),
  };
  if (failure !== null) {
    if (gpus.length > 0 && !output.mode.json) output.note(listingText(listing));
    output.failure(failure, 'gpu list', document);
    return exitCodeOf(failure);
  }
  output.result({ document, text: listingText(listing), bare: gpus.map(({ uuid }) => uuid).join('\n') });
  return exitCodes.done;
}
