/** Builds: what a checkpoint holds before anything runs, and what runs. */
import { z } from 'zod';
import { validationLevels } from './domain-schemas.ts';
import {
  amount,
  artifactKey,
  buildId,
  failureValue,
  knownRoot,
  listOf,
  moment,
  pathText,
  rate,
} from './values.ts';

export const representations = ['preserve', 'bf16'] as const;
export type Representation = (typeof representations)[number];

export const inspectRequest = z.strictObject({
  /** A checkpoint's folder, its index or its only file. */
  checkpoint: pathText,
  /** A known store: says whether what comes out would fit. */
  root: knownRoot.nullable().default(null),
});

/** What one representation would make of the checkpoint. */
export const buildOffer = z.object({
  representation: z.enum(representations),
  /** Null where it can't be built this way; the failure says why. */
  plan: z
    .object({
      /** Of most bytes, without torch's prefix. */
      dtype: z.string(),
      payloadFiles: amount,
      tensorBytes: amount,
      /** At most, headers and manifest included. */
      artifactBytes: amount,
    })
    .nullable(),
  /** Why it can't be built, or why it would not fit into the store now. */
  failure: failureValue.nullable(),
});

export const inspection = z.object({
  checkpoint: z.string(),
  /** Empty: nothing is wrong. Only then there is `found`. */
  problems: listOf(
    z.object({
      kind: z.string(),
      file: z.string().nullable(),
      tensor: z.string().nullable(),
      message: z.string(),
    }),
  ),
  /** There are more problems than are listed. */
  problemCount: amount,
  found: z
    .object({
      folder: z.string(),
      indexFile: z.string().nullable(),
      files: listOf(z.object({ name: z.string(), bytes: amount })),
      tensors: amount,
      /** Of the tensors that count. */
      bytes: amount,
      /** The largest first, without torch's prefix. */
      bytesByDtype: listOf(z.object({ dtype: z.string(), bytes: amount })),
      ignoredFiles: listOf(z.string()),
      ignoredTensors: amount,
      /** Guessed from place and configuration; both can be given instead. */
      modelId: z.string(),
      revision: z.string(),
      offers: listOf(buildOffer),
    })
    .nullable(),
});
export type CheckpointInspection = z.infer<typeof inspection>;

export const buildRequest = z.strictObject({
  root: knownRoot,
  checkpoint: pathText,
  representation: z.enum(representations).default('preserve'),
  /** Null: `model`. */
  component: z.string().min(1).max(500).nullable().default(null),
  /** Null: guessed, as `builds.inspect` shows. */
  modelId: z.string().min(1).max(500).nullable().default(null),
  revision: z.string().min(1).max(500).nullable().default(null),
  /** What a hit is checked by. */
  validation: z.enum(validationLevels).default('manifest_and_metadata'),
});
export type BuildRequest = z.input<typeof buildRequest>;

export const buildPhases = [
  'making-sample',
  'starting',
  'inspecting',
  'fingerprinting',
  'looking-up',
  'waiting-for-admission',
  'waiting-for-build-lock',
  'preparing',
  'producing',
  'hashing',
  'syncing',
  'publishing',
] as const;
export type BuildPhase = (typeof buildPhases)[number];

export const buildProgress = z.object({
  doneBytes: amount,
  totalBytes: amount,
  /** Over the last seconds; null until known. */
  bytesPerSecond: rate.nullable(),
  secondsLeft: rate.nullable(),
});

export const buildResult = z.object({
  /** `hit`: it was there. `joined`: another process built it meanwhile. */
  status: z.enum(['hit', 'built', 'joined', 'timeout', 'failed', 'cancelled']),
  key: artifactKey.nullable(),
  artifactBytes: amount.nullable(),
  elapsedMs: z.number().nonnegative(),
  /** For `timeout` and `failed`. */
  failure: failureValue.nullable(),
  /** Names below `tmp/` that a build that did not end well could not remove; its next build does. */
  leftBehind: listOf(z.string()),
});

/** A build that this program runs or ran since it started. It outlives the page that started it. */
export const build = z.object({
  id: buildId,
  kind: z.enum(['build', 'sample']),
  root: z.string(),
  /** Null: the sample's is not made yet. */
  checkpoint: z.string().nullable(),
  representation: z.enum(representations),
  component: z.string().nullable(),
  modelId: z.string().nullable(),
  revision: z.string().nullable(),
  /** Of the build process; null before it starts. */
  pid: amount.nullable(),
  startedAtMs: moment,
  endedAtMs: moment.nullable(),
  /** In the order in which they were entered: the lane of a time chart. The last one is the current one. */
  phases: listOf(z.object({ phase: z.enum(buildPhases), startedAtMs: moment })),
  /** Of the current phase, where it counts bytes. */
  progress: buildProgress.nullable(),
  /** Who holds admission or the build lock while this waits for it, in words. */
  waitingFor: z.string().nullable(),
  warnings: listOf(z.string()),
  /** Somebody asked it to stop. */
  cancelling: z.boolean(),
  /** Null while it runs. */
  result: buildResult.nullable(),
});
export type Build = z.infer<typeof build>;

/** A build of another process in a known store, as far as its locks show. */
export const buildElsewhere = z.object({
  root: z.string(),
  /** Null: it holds admission and nothing that names a key. */
  key: artifactKey.nullable(),
  pid: amount,
  command: z.string(),
  holdsAdmission: z.boolean(),
  seenSinceMs: moment,
});
export type BuildElsewhere = z.infer<typeof buildElsewhere>;

export const buildList = z.object({
  /** The newest first. */
  builds: listOf(build),
  elsewhere: listOf(buildElsewhere),
});
export type BuildList = z.infer<typeof buildList>;

export const startedBuild = z.object({ id: buildId });
export const buildReference = z.strictObject({ id: buildId });

/** The first event is the build as it is; the last one is its end. Leaving does not cancel the build. */
export const buildEvent = z.discriminatedUnion('type', [
  /** First, and whenever a phase begins. */
  z.object({ type: z.literal('state'), build }),
  z.object({ type: z.literal('progress'), progress: buildProgress }),
  z.object({ type: z.literal('warning'), message: z.string() }),
  z.object({ type: z.literal('result'), build }),
]);
export type BuildEvent = z.infer<typeof buildEvent>;
