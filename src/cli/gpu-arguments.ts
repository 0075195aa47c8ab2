/** What the commands about GPUs share: the driver library, the settings, and which GPU is meant. */
import { join } from 'node:path';
import type { Gpu, GpuListing } from '../contract/gpu-schemas.ts';
import { defaultPaths } from '../host/default-paths.ts';
import { GpuRegistry } from '../host/gpu-registry.ts';
import { SettingsFile } from '../host/settings-file.ts';
import type { OptionSpec } from './arguments.ts';
import type { Invocation } from './command.ts';
import { formatSize } from './sizes.ts';
import { valueOf } from './store-arguments.ts';
import { table } from './table.ts';

export const cudaLibraryOption: Readonly<Record<string, OptionSpec>> = {
  'cuda-library': {
    value: 'PATH',
    help: 'the CUDA driver library to use (default: the setting, else the system)',
  },
};

/** Opens the settings for `work`, and no longer. */
export async function withGpus<T>(
  { arguments: given, env, output }: Invocation,
  work: (gpus: GpuRegistry) => Promise<T>,
): Promise<T> {
  const paths = defaultPaths(env);
  const settings = new SettingsFile(join(paths.config, 'settings.json'), {
    onProblem: (message) => output.note(message),
  });
  await settings.open();
  try {
    return await work(new GpuRegistry({ settings, paths, library: given.text('cuda-library') ?? null }));
  } finally {
    settings.close();
  }
}

export async function meantGpu(gpus: GpuRegistry, text: string): Promise<Gpu> {
  return valueOf(await gpus.find(text));
}

export function gpuDocument(gpu: Gpu): Record<string, unknown> {
  return {
    index: gpu.index,
    uuid: gpu.uuid,
    name: gpu.name,
    pci: gpu.pciAddress,
    total_bytes: gpu.totalBytes,
    read_only_register: gpu.readOnlyRegister,
    mode: gpu.mode,
    limit_gib: gpu.limitGib,
    forbidden: gpu.forbidden,
    asked: gpu.asked,
    processes: gpu.processes?.map(({ pid, usedBytes }) => ({ pid, used_bytes: usedBytes })) ?? null,
  };
}

export function limitWords(limitGib: number): string {
  return limitGib === 0 ? 'no limit' : `${limitGib} GiB`;
}

export function listingText({ gpus, simulated, driverVersion, library, notes }: GpuListing): string {
  const rows = gpus.map((gpu) => [
    String(gpu.index),
    gpu.name,
    gpu.uuid,
    gpu.pciAddress,
    formatSize(gpu.totalBytes),
    gpu.forbidden ? 'forbidden here' : gpu.readOnlyRegister ? 'yes' : 'no',
    gpu.mode,
    limitWords(gpu.limitGib),
  ]);
  const columns = ['gpu', 'name', 'uuid', 'pci', 'memory', 'registers', 'mode', 'limit'];
  const version =
    driverVersion === null ? '' : `CUDA ${Math.floor(driverVersion / 1000)}.${(driverVersion % 1000) / 10}`;
  return [
    ...(simulated ? ['SIMULATED: these GPUs are imitations of a driver library.'] : []),
    ...(gpus.length === 0
      ? ['No GPU is known.']
      : [
          table(
            columns.map((title) => ({ title })),
            rows,
          ),
        ]),
    ...(library === null && version === ''
      ? []
      : [`driver: ${[version, library].filter(Boolean).join(', ')}`]),
    ...notes,
  ].join('\n');
}
