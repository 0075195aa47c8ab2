/** `weightroom gpu mode`: whether a GPU registers host memory, and how much at most. */
import type { GpuSetting } from '../../contract/gpu-schemas.ts';
import { gpuModes, type GpuMode } from '../../registration/launch-flags.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { cudaLibraryOption, limitWords, meantGpu, withGpus } from '../gpu-arguments.ts';
import { parseSize } from '../sizes.ts';
import { wrongUse } from '../wrong-use.ts';

export const command: Command = {
  positionals: [
    { name: 'gpu', required: true },
    { name: 'auto|disabled', required: true },
  ],
  options: {
    limit: { value: 'SIZE', help: 'the most that one worker may register, or none (kept when not given)' },
    ...cudaLibraryOption,
  },
  details: `The GPU is an index or a UUID (or the beginning of one); what is set belongs to the UUID. "disabled" makes no
CUDA call for that GPU. It governs what Weightroom registers and the flags that it prints: a worker that somebody
else starts obeys its own flags. A limit of none is no limit; to switch registration off, use "disabled".`,
  example: 'weightroom gpu mode 0 auto --limit 80GiB',
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  const { arguments: given, output } = invocation;
  const mode = given.positional(1);
  if (!isMode(mode)) throw wrongUse(`the mode is ${gpuModes.join(' or ')}, not ${JSON.stringify(mode)}.`);
  const limit = given.text('limit');
  const change = limit === undefined ? { mode } : { mode, limitGib: parseLimit(limit) };
  const { gpu, set } = await withGpus(invocation, async (gpus) => {
    const found = await meantGpu(gpus, given.positional(0));
    return { gpu: found, set: await gpus.setMode(found.uuid, change) };
  });
  output.result({
    document: { uuid: gpu.uuid, index: gpu.index, name: gpu.name, mode: set.mode, limit_gib: set.limitGib },
    text: words(gpu.name, gpu.uuid, set),
    bare: set.mode,
  });
  return exitCodes.done;
}

function isMode(text: string): text is GpuMode {
  return (gpuModes as readonly string[]).includes(text);
}

function parseLimit(text: string): number {
  if (text === 'none') return 0;
  const bytes = parseSize(text, '--limit');
  if (bytes === 0) {
    throw wrongUse(
      'a limit of 0 would mean no limit: write --limit none for that, or use "disabled" to switch registration off.',
    );
  }
  return bytes / 1024 ** 3;
}

function words(name: string, uuid: string, { mode, limitGib }: GpuSetting): string {
  const what =
    mode === 'disabled'
      ? 'registration is disabled; no CUDA call is made for it'
      : `auto, ${limitWords(limitGib)}`;
  return `${name} (${uuid}): ${what}.\nThis governs what Weightroom registers and the flags that it prints; a worker that somebody else starts obeys its own flags.`;
}
