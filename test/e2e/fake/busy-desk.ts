/** A workstation where a lot is going on. */
import type { ActivityEntry } from '../../../src/contract/app-schemas.ts';
import { build, builtBuild, failedBuild } from './builds.ts';
import { FakeDesk } from './desk.ts';
import { locks, offlineStore, rows, storeOf } from './stores.ts';
import { keyOf, minute } from './units.ts';

export function busyDesk(count = 240): FakeDesk {
  const nowMs = Date.now();
  const desk = new FakeDesk();
  const big = rows(count, nowMs);
  const small = rows(14, nowMs).map((one, n) => ({
    ...one,
    id: `${one.id}`,
    bytes: Math.floor(one.bytes / (n + 2)),
  }));
  desk.stores = [
    {
      store: storeOf('/data/weights', big, nowMs, {
        limitGib: count > 1000 ? 200_000 : 2600,
        freeGib: 410,
      }),
      rows: big,
    },
    { store: storeOf('/scratch/ada/omni-weights', small, nowMs, { freeGib: 380 }), rows: small },
    { store: offlineStore('/mnt/nvme2/weights-old'), rows: [] },
  ];
  desk.builds = [
    build('b1', nowMs),
    build('b2', nowMs, {
      modelId: 'black-forest-labs/FLUX.1-dev',
      startedAtMs: nowMs - 2 * minute,
      phases: [
        { phase: 'starting', startedAtMs: nowMs - 2 * minute },
        { phase: 'waiting-for-admission', startedAtMs: nowMs - 1.8 * minute },
      ],
      progress: null,
      waitingFor: 'held by process 41322 (node src/production/build-process.ts)',
    }),
    failedBuild('b3', nowMs),
    builtBuild('b4', nowMs),
  ];
  const command = 'python3 -m vllm_omni.weights build --model Qwen/Qwen2.5-Omni-7B';
  desk.elsewhere = [
    {
      root: '/scratch/ada/omni-weights',
      key: keyOf('artifact 3'),
      pid: 40_011,
      command,
      holdsAdmission: false,
      seenSinceMs: nowMs - 3 * minute,
    },
  ];
  desk.locks = locks(nowMs);
  const entry = (id: number, changes: Partial<ActivityEntry>): ActivityEntry => ({
    id: String(id),
    atMs: nowMs - id * 7 * minute,
    kind: 'build-ended',
    severity: 'information',
    message: '',
    root: null,
    key: null,
    buildId: null,
    failure: null,
    ...changes,
  });
  desk.activity = [
    entry(1, {
      message: 'A build of Qwen/Qwen3-Omni-30B-A3B into weights started.',
      kind: 'build-started',
      root: '/data/weights',
      buildId: 'b1',
    }),
    entry(2, {
      message: 'The build of Wan-AI/Wan2.2-T2V-A14B failed.',
      severity: 'failure',
      root: '/data/weights',
      buildId: 'b3',
      failure: desk.builds[2]?.result?.failure ?? null,
    }),
    entry(3, {
      message: 'Qwen/Qwen2.5-Omni-7B was built into weights: 15.0 GiB in 4 minutes.',
      root: '/data/weights',
      key: keyOf('artifact 1'),
      buildId: 'b4',
    }),
    entry(4, {
      message: 'weights-old went offline.',
      severity: 'warning',
      kind: 'app',
      root: '/mnt/nvme2/weights-old',
    }),
    ...Array.from({ length: 12 }, (_, n) =>
      entry(5 + n * 13, {
        message: `An artifact of ${['FLUX.1-dev', 'Wan2.2-T2V-A14B'][n % 2]} was verified: it is whole.`,
        kind: 'artifact-verified' as const,
        root: '/data/weights',
        key: keyOf(`artifact ${n}`),
      }),
    ),
  ];
  return desk;
}
