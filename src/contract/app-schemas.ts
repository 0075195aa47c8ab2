/** The program itself, its settings, what happened in it, and looking around on the disk. */
import { z } from 'zod';
import { gpuSetting } from './gpu-schemas.ts';
import { amount, failureValue, listOf, moment, pathText } from './values.ts';

/** The answer of what only had to be done. */
export const nothing = z.object({});

export const transports = ['message-port', 'websocket', 'in-process'] as const;

export const appStatus = z.object({
  version: z.string(),
  pid: amount,
  startedAtMs: moment,
  /** How the asking client is connected. */
  transport: z.enum(transports),
  nodeVersion: z.string(),
  hostName: z.string(),
  userName: z.string(),
  /** The folder that `~` stands for. */
  homeFolder: z.string(),
  /** Where this program keeps what it writes. */
  folders: z.object({ config: z.string(), state: z.string(), cache: z.string(), data: z.string() }),
  /** What is wrong with the program's own files, in words: for alerts. */
  problems: listOf(z.object({ atMs: moment, message: z.string() })),
});
export type AppStatus = z.infer<typeof appStatus>;

export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

export const settings = z.object({
  theme: z.enum(themes),
  /** Roots of the known stores, in the order in which they were opened. Changed by `stores`. */
  stores: listOf(z.string()),
  /** Per GPU, by UUID; one that is not listed is `auto` without a limit. Changed by `gpus.setMode`. */
  gpus: listOf(gpuSetting).optional(),
  /** The one CUDA driver library to use; null or missing: the system's. */
  cudaLibrary: pathText.nullable().optional(),
});
export type Settings = z.infer<typeof settings>;

export const settingsChange = z.strictObject({
  theme: z.enum(themes).optional(),
  cudaLibrary: pathText.nullable().optional(),
});

export const activityKinds = [
  'app',
  'store-opened',
  'store-created',
  'store-forgotten',
  'build-started',
  'build-ended',
  'artifact-verified',
  'artifact-removed',
  'artifact-restored',
  'store-cleaned',
  'settings',
  'bug',
] as const;

export const activityEntry = z.object({
  /** Rises with time; never given twice on one machine account. */
  id: z.string(),
  atMs: moment,
  kind: z.enum(activityKinds),
  severity: z.enum(['information', 'warning', 'failure']),
  /** For a person. */
  message: z.string(),
  root: z.string().nullable(),
  key: z.string().nullable(),
  buildId: z.string().nullable(),
  failure: failureValue.nullable(),
});
export type ActivityEntry = z.infer<typeof activityEntry>;

export const activityRequest = z.strictObject({ limit: z.int().min(1).max(1000).default(200) }).prefault({});
export const activityAnswer = z.object({
  /** Newest first. */
  entries: listOf(activityEntry),
  /** There are older ones that are not shown. */
  more: z.boolean(),
});

/** What changed; whoever shows it asks again for it. */
export const appEvent = z.discriminatedUnion('type', [
  /** The first event: from here on nothing is missed. */
  z.object({ type: z.literal('subscribed') }),
  /** A store was opened, created, forgotten, came or went. */
  z.object({ type: z.literal('stores') }),
  z.object({ type: z.literal('activity'), entry: activityEntry }),
  z.object({ type: z.literal('settings'), settings }),
  /** A build started, entered a phase, ended or was dismissed. */
  z.object({ type: z.literal('builds') }),
  /** A registration started, changed its state or ended. */
  z.object({ type: z.literal('registrations') }),
]);
export type AppEvent = z.infer<typeof appEvent>;

export const browseRequest = z
  .strictObject({
    /** Null: the home folder. */
    path: pathText.nullable().default(null),
  })
  .prefault({});

export const folderEntry = z.object({
  name: z.string(),
  /** Absolute. */
  path: z.string(),
  kind: z.enum(['folder', 'file']),
  /** A folder that holds weights, an index or a model's configuration; looked at in the first folders only. */
  looksLike: z.enum(['checkpoint', 'store']).nullable(),
  /** Null for folders. */
  sizeBytes: amount.nullable(),
  modifiedAtMs: moment,
});
export type FolderEntry = z.infer<typeof folderEntry>;

export const folderListing = z.object({
  /** Absolute, without links. */
  path: z.string(),
  /** Null at the root of the file system. */
  parent: z.string().nullable(),
  /** Folders first, then `.safetensors` and `.json` files; hidden ones are left out. */
  entries: listOf(folderEntry),
  /** Only the first ones are listed. */
  truncated: z.boolean(),
});
export type FolderListing = z.infer<typeof folderListing>;
