/**
 * The GPUs of this machine with what is set for each: by UUID, because indexes change. A disabled GPU is not asked
 * anything: the probe cannot see it (CUDA_VISIBLE_DEVICES), and what is shown of it is remembered.
 */
import { join } from 'node:path';
import type { Settings } from '../contract/app-schemas.ts';
import { failed, failure, succeeded, type Outcome } from '../contract/failure.ts';
import type { Gpu, GpuListing, GpuSetting } from '../contract/gpu-schemas.ts';
import { probeGpus, type FoundGpus } from '../registration/gpu-probe.ts';
import { launchFlags, type LaunchFlags } from '../registration/launch-flags.ts';
import { stuckOn } from '../registration/registration-session.ts';
import { cudaLibraries, managementLibraries } from '../registration/libraries.ts';
import { RunFolder } from '../registration/run-record.ts';
import type { DefaultPaths } from './default-paths.ts';
import { GpuMemory, type LibraryMemory, type RememberedGpu } from './gpu-memory.ts';

export interface GpuSettings {
  readonly current: Settings;
  update(change: (settings: Settings) => Settings): Promise<Settings>;
}

export interface GpuRegistryOptions {
  readonly settings: GpuSettings;
  readonly paths: DefaultPaths;
  /** Before the setting. */
  readonly library?: string | null;
  readonly deadlineMs?: number;
}

const whatTheSwitchGoverns =
  'The mode governs what Weightroom registers itself and the flags that it prints. A worker that somebody else starts obeys its own flags.';

export class GpuRegistry {
  readonly runs: RunFolder;
  readonly #settings: GpuSettings;
  readonly #memory: GpuMemory;
  readonly #explicit: string | null;
  readonly #deadlineMs: number;
  #probing: Promise<readonly Outcome<FoundGpus>[]> | null = null;

  constructor({ settings, paths, library = null, deadlineMs = 10_000 }: GpuRegistryOptions) {
    this.#settings = settings;
    this.#explicit = library;
    this.#deadlineMs = deadlineMs;
    this.#memory = new GpuMemory(join(paths.state, 'gpus.json'));
    this.runs = new RunFolder(paths.state);
  }

  /** The one driver library to use; null: the system's. */
  get library(): string | null {
    return this.#explicit ?? this.#settings.current.cudaLibrary ?? null;
  }

  get libraries(): readonly string[] {
    return cudaLibraries(this.library);
  }

  settingOf(uuid: string): GpuSetting {
    const set = this.#settings.current.gpus?.find((entry) => entry.uuid === uuid);
    return set ?? { uuid, mode: 'auto', limitGib: 0 };
  }

  /** What is known from before, without any call into the driver. */
  async remembered(): Promise<GpuListing> {
    return this.#listing(await this.#memory.of(this.library), []);
  }

  /**
   * Each known GPU is asked by a process of its own, so that one which hangs keeps only itself from being listed.
   * All at once are asked the first time, when none is known, and at a `rescan`, which finds new ones.
   */
  async list({ rescan = false }: { readonly rescan?: boolean } = {}): Promise<GpuListing> {
    const before = await this.#memory.of(this.library);
    const disabled = this.#disabled();
    if (before === null && disabled.size > 0 && !rescan) return this.#listing(before, []);
    const known = (before?.gpus ?? []).map(({ uuid }) => uuid);
    const all = before === null || (rescan && !this.#isAnyStuck(known));
    const asked = known.filter((uuid) => rescan || !disabled.has(uuid));
    this.#probing ??= this.#probe(all ? null : asked).finally(() => {
      this.#probing = null;
    });
    const answers = await this.#probing;
    const found = answers.flatMap((answer) => (answer.ok ? [answer.value] : []));
    const failure = answers.find((answer) => !answer.ok)?.failure ?? null;
    const [first] = found;
    if (first !== undefined) {
      const { simulated, driverVersion, driver } = first;
      const devices = found.flatMap((one) => one.devices);
      const gpus = all ? devices : refreshed(before.gpus, devices);
      await this.#memory.keep(this.library, { simulated, driverVersion, driver, gpus });
    }
    return { ...this.#listing(await this.#memory.of(this.library), found), failure };
  }

  /** By index, UUID or the beginning of one. Only what is not known yet is asked for. */
  async find(text: string): Promise<Outcome<Gpu>> {
    const known = match((await this.remembered()).gpus, text);
    if (known !== null) return succeeded(known);
    const listing = await this.list();
    const found = match(listing.gpus, text);
    if (found !== null) return succeeded(found);
    if (listing.failure !== null) return failed(listing.failure);
    const there = listing.gpus.map(({ index, uuid, name }) => `  ${index}  ${uuid}  ${name}`).join('\n');
    return failed(
      failure(
        'configuration',
        'invalid_config',
        `There is no GPU ${JSON.stringify(text)}. There are:\n${there}`,
      ),
    );
  }

  async setMode(uuid: string, change: Partial<Omit<GpuSetting, 'uuid'>>): Promise<GpuSetting> {
    const settings = await this.#settings.update((before) => {
      const others = (before.gpus ?? []).filter((entry) => entry.uuid !== uuid);
      const own = before.gpus?.find((entry) => entry.uuid === uuid) ?? { uuid, mode: 'auto', limitGib: 0 };
      return { ...before, gpus: [...others, { ...own, ...change }] };
    });
    return settings.gpus?.find((entry) => entry.uuid === uuid) ?? this.settingOf(uuid);
  }

  flags(uuids: readonly string[]): LaunchFlags {
    return launchFlags(uuids.map((uuid) => this.settingOf(uuid)));
  }

  /** The platform refused registration for this GPU: not to be tried again with this driver. */
  async forbid(uuid: string): Promise<void> {
    await this.#memory.forbid(this.library, uuid);
  }

  async #probe(uuids: readonly string[] | null): Promise<readonly Outcome<FoundGpus>[]> {
    const { runs, libraries } = this;
    const management = managementLibraries(this.library);
    const common = { runs, libraries, management, deadlineMs: this.#deadlineMs };
    const parts = uuids === null ? [null] : uuids.map((uuid) => [uuid]);
    return await Promise.all(parts.map(async (only) => await probeGpus({ ...common, only })));
  }

  #isAnyStuck(uuids: readonly string[]): boolean {
    const records = this.runs.live();
    return uuids.some((uuid) => stuckOn(uuid, records) !== null);
  }

  #disabled(): ReadonlySet<string> {
    const set = this.#settings.current.gpus ?? [];
    return new Set(set.filter(({ mode }) => mode === 'disabled').map(({ uuid }) => uuid));
  }

  #listing(memory: LibraryMemory | null, found: readonly FoundGpus[]): GpuListing {
    const asked = new Set(found.flatMap(({ devices }) => devices.map(({ uuid }) => uuid)));
    const disabled = this.#disabled();
    const gpus = (memory?.gpus ?? []).map((gpu): Gpu => {
      const { mode, limitGib } = this.settingOf(gpu.uuid);
      const own = found
        .find(({ devices }) => devices.some(({ uuid }) => uuid === gpu.uuid))
        ?.processes.filter(({ uuid }) => uuid === gpu.uuid);
      return {
        ...gpu,
        mode,
        limitGib,
        forbidden: isForbidden(memory, gpu.uuid),
        processes: own?.map(({ pid, usedBytes }) => ({ pid, usedBytes })) ?? null,
        asked: asked.has(gpu.uuid),
      };
    });
    const unknown = [...disabled].filter((uuid) => !gpus.some((gpu) => gpu.uuid === uuid));
    return {
      gpus,
      library: found[0]?.library ?? this.library,
      simulated: memory?.simulated ?? false,
      driverVersion: memory?.driverVersion ?? null,
      driver: memory?.driver ?? null,
      failure: null,
      notes: [
        whatTheSwitchGoverns,
        ...(gpus.some(({ uuid, asked: now }) => !now && disabled.has(uuid))
          ? [
              'Disabled GPUs were not asked: what stands here of them is from before. `gpu list --rescan` asks all.',
            ]
          : []),
        ...(memory === null && unknown.length > 0
          ? [
              'No GPU was asked, because it is not known which ones are disabled. `gpu list --rescan` asks all.',
            ]
          : []),
      ],
    };
  }
}

function isForbidden(memory: LibraryMemory | null, uuid: string): boolean {
  return (
    memory?.forbidden.some((entry) => entry.uuid === uuid && entry.driverVersion === memory.driverVersion) ??
    false
  );
}

/** Indexes are those of all GPUs; among the visible ones they would count differently. */
function refreshed(before: readonly RememberedGpu[], devices: FoundGpus['devices']): RememberedGpu[] {
  return before.map((gpu) => {
    const device = devices.find(({ uuid }) => uuid === gpu.uuid);
    return device === undefined ? gpu : { ...device, index: gpu.index };
  });
}

function match(gpus: readonly Gpu[], text: string): Gpu | null {
  if (/^\d+$/.test(text)) return gpus.find(({ index }) => index === Number(text)) ?? null;
  const near = gpus.filter(({ uuid }) => uuid.toLowerCase().startsWith(text.toLowerCase()));
  return near.length === 1 ? (near[0] ?? null) : null;
}
