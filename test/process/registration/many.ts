/**
 * Many registrars at once on eight GPUs of an imitated driver, some of which hang, fail or are killed, by a seed: in
 * the end there is no process, no lease, no turn taken and no descriptor more than before.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, vi } from 'vitest';
import type { Settings } from '../../../src/contract/app-schemas.ts';
import type { Gpu } from '../../../src/contract/gpu-schemas.ts';
import { defaultPaths } from '../../../src/host/default-paths.ts';
import { GpuRegistry } from '../../../src/host/gpu-registry.ts';
import { RegistrationSession } from '../../../src/registration/registration-session.ts';
import { newSession } from '../../../src/registration/run-record.ts';
import { lockStates } from '../../../src/store/lock-holders.ts';
import { Random } from '../../fixtures/store.ts';
import { isThere, RegistrationScene, until } from './scene.ts';

const gpuCount = 8;

export interface Crowd {
  readonly seed: number;
  /** At the same time. */
  readonly registrars: number;
  /** Milliseconds since 1970: rounds are begun until then, and at least one. */
  readonly untilMs: number;
}

/** Returns how often each end was seen. */
export async function registerInCrowds({
  seed,
  registrars,
  untilMs,
}: Crowd): Promise<Record<string, number>> {
  const random = new Random(seed);
  const scene = await RegistrationScene.make({ files: 4, devices: gpuCount });
  for (const [name, value] of Object.entries(scene.env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const gpus = registryOf(scene);
  const { gpus: listed } = await gpus.list();
  const ends: Record<string, number> = {};
  const descriptors = readdirSync('/proc/self/fd').length;
  do {
    scene.configure({ devices: gpuCount, latency_ms: 2, ...rules(random) });
    const round = Array.from({ length: registrars }, async (_, index) => {
      const gpu = listed[index % listed.length] as Gpu;
      const state = await oneOf(scene, gpus, gpu, random.of(['release', 'release', 'terminate', 'kill']));
      ends[state] = (ends[state] ?? 0) + 1;
    });
    await Promise.all(round);
    const held = (await lockStates(scene.scenario.root)).filter(({ state }) => state !== 'free');
    expect({ seed, held }).toEqual({ seed, held: [] });
    expect({ seed, live: gpus.runs.live() }).toEqual({ seed, live: [] });
  } while (Date.now() < untilMs);
  await until(() => readdirSync('/proc/self/fd').length <= descriptors);
  return ends;
}

/** Some calls fail, some never return; which, the seed says. */
function rules(random: Random): Record<string, unknown> {
  const actions = ['hang', 'hang-ignoring-sigterm', 'hang-uninterruptible', 'fail'];
  const register = Array.from({ length: 4 }, () => ({
    device: random.below(gpuCount),
    call: 1 + random.below(4),
    do: random.of(actions),
    code: random.of([1, 2, 712, 999]),
  }));
  return { register };
}

type Ending = 'release' | 'terminate' | 'kill';

async function oneOf(scene: RegistrationScene, gpus: GpuRegistry, gpu: Gpu, ending: Ending): Promise<string> {
  const { root } = scene.scenario;
  const session = newSession(Date.now());
  const head = { session, root, key: scene.key, gpus: [gpu.uuid], gpuName: gpu.name } as const;
  const record = gpus.runs.begin({
    ...head,
    kind: 'registration',
    supervisor: process.pid,
    stallAfterMs: 2000,
    library: scene.library,
    atMs: Date.now(),
  });
  const settled = Promise.withResolvers<void>();
  const request = { session, root, key: scene.key, gpu: gpu.uuid, libraries: [scene.library], record };
  const running = new RegistrationSession(
    {
      ...request,
      limitBytes: null,
      chunkBytes: 1024 ** 2,
      parallel: true,
      admissionFolder: gpus.runs.admission,
    },
    {
      stallAfterMs: 2000,
      terminateAfterMs: 2000,
      killAfterMs: 60_000,
      onEvent: (event) => {
        if (event.event !== 'view') return;
        const { state, lastEntered } = event.view;
        if (lastEntered !== null && (ending !== 'release' || state === 'stalled')) settled.resolve();
        if (['registered', 'staging', 'failed'].includes(state)) settled.resolve();
      },
    },
  );
  await Promise.race([settled.promise, running.gone]);
  const { pid, state } = running.view;
  if (ending === 'kill' && pid !== null && isThere(pid)) spawnSync('kill', ['-KILL', String(pid)]);
  if (ending === 'release' && state === 'registered') running.release();
  else expect(await running.end({ force: true })).toBe(true);
  await running.gone;
  expect(isThere(running.view.pid ?? 0)).toBe(false);
  return running.view.state;
}

function registryOf(scene: RegistrationScene): GpuRegistry {
  const settings = { current: {} as Settings, update: () => Promise.reject(new Error('nothing is set')) };
  const paths = defaultPaths(scene.env);
  expect(paths.state.startsWith(join(scene.folder, 'state'))).toBe(true);
  return new GpuRegistry({ settings, paths, library: scene.library, deadlineMs: 60_000 });
}
