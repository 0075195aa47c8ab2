/** Makers of what a host would tell about builds: short to write in a test, and always the same for the same numbers. */
import type { Build, CheckpointInspection } from '../../../src/contract/build-schemas.ts';
import { failure } from '../../../src/contract/failure.ts';
import { gib, keyOf, minute } from './units.ts';

export function build(id: string, nowMs: number, changes: Partial<Build> = {}): Build {
  const startedAtMs = nowMs - 4 * minute;
  return {
    id,
    kind: 'build',
    root: '/data/weights',
    checkpoint: '/models/Qwen3-Omni-30B-A3B',
    representation: 'preserve',
    component: 'model',
    modelId: 'Qwen/Qwen3-Omni-30B-A3B',
    revision: keyOf(id).slice(0, 40),
    pid: 41_322,
    startedAtMs,
    endedAtMs: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'inspecting', startedAtMs: startedAtMs + 2000 },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 6000 },
      { phase: 'waiting-for-admission', startedAtMs: startedAtMs + 30_000 },
      { phase: 'producing', startedAtMs: startedAtMs + 90_000 },
    ],
    progress: {
      doneBytes: Math.floor(38.4 * gib),
      totalBytes: 61 * gib,
      bytesPerSecond: 1.42 * gib,
      secondsLeft: 16,
    },
    waitingFor: null,
    warnings: [],
    cancelling: false,
    result: null,
    ...changes,
  };
}

export function failedBuild(id: string, nowMs: number): Build {
  const startedAtMs = nowMs - 12 * minute;
  const endedAtMs = startedAtMs + 95_000;
  const message =
    'The build needs 61.0 GiB, and the store has 43.2 GiB left of its limit of 512.0 GiB. Remove artifacts that are not needed, or build into another store.';
  return build(id, nowMs, {
    modelId: 'Wan-AI/Wan2.2-T2V-A14B',
    checkpoint: '/models/Wan2.2-T2V-A14B',
    startedAtMs,
    endedAtMs,
    progress: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 3000 },
      { phase: 'preparing', startedAtMs: startedAtMs + 80_000 },
    ],
    result: {
      status: 'failed',
      key: keyOf(id),
      artifactBytes: null,
      elapsedMs: 95_000,
      failure: failure('capacity', 'store_limit_exceeded', message, { details: { needed_bytes: 61 * gib } }),
      leftBehind: [],
    },
  });
}

export function builtBuild(id: string, nowMs: number): Build {
  const startedAtMs = nowMs - 9 * minute;
  return build(id, nowMs, {
    modelId: 'Qwen/Qwen2.5-Omni-7B',
    checkpoint: '/models/Qwen2.5-Omni-7B',
    startedAtMs,
    endedAtMs: nowMs - 5 * minute,
    progress: null,
    phases: [
      { phase: 'starting', startedAtMs },
      { phase: 'fingerprinting', startedAtMs: startedAtMs + 3000 },
      { phase: 'producing', startedAtMs: startedAtMs + 40_000 },
      { phase: 'publishing', startedAtMs: startedAtMs + 200_000 },
    ],
    result: {
      status: 'built',
      key: keyOf('artifact 1'),
      artifactBytes: 15 * gib,
      elapsedMs: 4 * minute,
      failure: null,
      leftBehind: [],
    },
  });
}

export function inspection(checkpoint: string): CheckpointInspection {
  if (checkpoint.includes('broken')) {
    const message = 'weights-00002.safetensors ends before its last tensor does: 1,024 bytes are missing.';
    const problem = { kind: 'truncated', file: 'weights-00002.safetensors', tensor: null, message };
    return { checkpoint, problems: [problem], problemCount: 1, found: null };
  }
  const files = Array.from({ length: 16 }, (_, n) => {
    return { name: `model-${String(n + 1).padStart(5, '0')}-of-00016.safetensors`, bytes: 3.8 * gib };
  });
  const plan = {
    dtype: 'bfloat16',
    payloadFiles: 16,
    tensorBytes: 61 * gib,
    artifactBytes: Math.floor(61.02 * gib),
  };
  return {
    checkpoint,
    problems: [],
    problemCount: 0,
    found: {
      folder: checkpoint,
      indexFile: 'model.safetensors.index.json',
      files: files.map(({ name, bytes }) => ({ name, bytes: Math.floor(bytes) })),
      tensors: 18_867,
      bytes: 61 * gib,
      bytesByDtype: [
        { dtype: 'bfloat16', bytes: 60 * gib },
        { dtype: 'float32', bytes: gib },
      ],
      ignoredFiles: ['consolidated.safetensors'],
      ignoredTensors: 0,
      modelId: 'Qwen/Qwen3-Omni-30B-A3B',
      revision: keyOf(checkpoint).slice(0, 40),
      offers: [
        { representation: 'preserve', plan, failure: null },
        {
          representation: 'bf16',
          plan: null,
          failure: failure('production', 'producer_unsupported', 'It is bfloat16 already: keep it as it is.'),
        },
      ],
    },
  };
}
