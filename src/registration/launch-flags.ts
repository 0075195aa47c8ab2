/**
 * The flags that a vLLM-Omni launch needs for what is set here. A launch takes one mode and one limit for all of
 * its workers: `disabled` where any of its GPUs is, else the smallest limit. Source: registration spec, section 3.
 */

export const gpuModes = ['auto', 'disabled'] as const;
export type GpuMode = (typeof gpuModes)[number];

export interface GpuChoice {
  readonly mode: GpuMode;
  /** GiB for each worker; 0: no limit. */
  readonly limitGib: number;
}

export interface LaunchFlags {
  readonly flags: readonly string[];
  /** What a reader has to know besides. */
  readonly remarks: readonly string[];
}

const needed = [
  '--enable-distributed-layerwise-offload',
  '--dlo-no-use-allgather',
  '--host-weight-runtime-mode preferred',
];

export function launchFlags(gpus: readonly GpuChoice[]): LaunchFlags {
  const mode: GpuMode = gpus.some((gpu) => gpu.mode === 'disabled') ? 'disabled' : 'auto';
  const limits = gpus.map(({ limitGib }) => limitGib).filter((limit) => limit > 0);
  const limit = limits.length === 0 ? 0 : Math.min(...limits);
  const differ = new Set(gpus.map((gpu) => `${gpu.mode} ${gpu.limitGib}`)).size > 1;
  return {
    flags: [
      ...needed,
      `--dlo-host-registration-mode ${mode}`,
      ...(mode === 'auto' ? [`--dlo-host-registration-limit-gib ${limit}`] : []),
    ],
    remarks: [
      ...(differ
        ? [
            'The GPUs are set differently, and one launch takes one mode and one limit: disabled if any of them is, else the smallest limit.',
          ]
        : []),
      ...(mode === 'auto' && limit === 0 ? ['A limit of 0 means no limit; it is not an off switch.'] : []),
      'The registration flags need layerwise offload without all-gather and the host weight runtime, so their flags are printed too.',
      'A build of vLLM-Omni without --dlo-host-registration-mode takes a limit below the artifact\'s size instead of "disabled", for example --dlo-host-registration-limit-gib 0.001.',
    ],
  };
}
