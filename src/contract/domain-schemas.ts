/** What lies in one store: its entries as rows, its bytes as a picture, and who holds which lock. */
import { z } from 'zod';
import { entryStates, store } from './store-schemas.ts';
import { amount, artifactKey, knownRoot, listOf, moment, page, searchText } from './values.ts';

export const validationLevels = ['manifest_and_metadata', 'full_checksum'] as const;

/** `busy`: somebody publishes or removes it right now. `unreadable`: the storage gave an error. */
export const verificationStatuses = ['valid', 'invalid', 'denied', 'missing', 'busy', 'unreadable'] as const;

export const lastVerified = z.object({
  atMs: moment,
  level: z.enum(validationLevels),
  status: z.enum(verificationStatuses),
});

export const inventoryRow = z.object({
  /** Unique in a store: `<state>/<name>`. */
  id: z.string(),
  key: artifactKey,
  state: z.enum(entryStates),
  /** Name in its directory; the key alone for `ready`. */
  name: z.string(),
  bytes: amount,
  allocatedBytes: amount,
  /** Why it is denied or quarantined; null where that is not recorded. */
  reason: z.string().nullable(),
  /** Ready and neither denied nor marked invalid. */
  served: z.boolean(),
  /** The sticky bit is set: a publication or a move was interrupted. */
  invalidated: z.boolean(),
  /** Ready, but a deny marker stands against it. */
  denied: z.boolean(),
  /** Temporary, and its build runs. */
  building: z.boolean(),
  modifiedAtMs: moment,
  /** From the manifest; all null where there is none or it can't be read. */
  model: z.string().nullable(),
  modelRevision: z.string().nullable(),
  component: z.string().nullable(),
  representation: z.string().nullable(),
  /** Without torch's prefix: `bfloat16`. */
  dtype: z.string().nullable(),
  layout: z.string().nullable(),
  tensorParallelSize: amount.nullable(),
  tensorParallelRank: amount.nullable(),
  producer: z.string().nullable(),
  /** Why the manifest says nothing, or what is wrong with it. */
  problem: z.string().nullable(),
  /** By this program on this machine; null: not yet, or it has changed since. */
  lastVerified: lastVerified.nullable(),
});
export type InventoryRow = z.infer<typeof inventoryRow>;

export const inventorySorts = [
  'key',
  'state',
  'bytes',
  'model',
  'component',
  'representation',
  'dtype',
  'tensorParallel',
  'modified',
  'lastVerified',
] as const;
export type InventorySort = (typeof inventorySorts)[number];

export const inventoryRequest = z.strictObject({
  root: knownRoot,
  /** Words that must all occur: in key, name, model, revision, component, representation, dtype or reason. */
  search: searchText,
  /** Empty: all. */
  states: z.array(z.enum(entryStates)).max(entryStates.length).default([]),
  /** Equal rows follow in the order of key, state and name. */
  sort: z.enum(inventorySorts).default('key'),
  descending: z.boolean().default(false),
  ...page,
});
export type InventoryRequest = z.input<typeof inventoryRequest>;

export const inventoryPage = z.object({
  /** The look that this answer is from: see `domain.watch`. */
  revision: amount,
  measuredAtMs: moment,
  /** Of all rows that match, not of this page. */
  total: amount,
  totalBytes: amount,
  /** Of the store, whatever is searched for. */
  allRows: amount,
  offset: amount,
  rows: listOf(inventoryRow),
});
export type InventoryPage = z.infer<typeof inventoryPage>;

export const domainRequest = z.strictObject({ root: knownRoot });

export const domainOverview = z.object({
  /** The largest first. */
  groups: listOf(
    z.object({
      state: z.enum(entryStates),
      /** Null: nothing readable says which. */
      model: z.string().nullable(),
      representation: z.string().nullable(),
      entries: amount,
      /** Sum of the files' sizes. */
      bytes: amount,
      /** What the file system set aside for them. */
      allocatedBytes: amount,
      /** What removing them would give back: an upper bound where blocks are shared with other files. */
      freeableBytes: amount,
    }),
  ),
});
export type DomainOverview = z.infer<typeof domainOverview>;

/** As many as the host can tell apart in one search. */
export const mostFindWords = 16;

export const findRequest = z.strictObject({
  root: knownRoot,
  /** Words that must all occur in what the artifact is called or in the name of one of its tensors. */
  search: searchText.refine(
    (text) => text.trim().split(/\s+/).length <= mostFindWords,
    `at most ${mostFindWords} words`,
  ),
  /** Only tensors of this dtype, without torch's prefix. */
  dtype: z.string().max(100).nullable().default(null),
  /** Only tensors of this shape: `4096x1024`. */
  shape: z.string().max(200).nullable().default(null),
  ...page,
});
export type FindRequest = z.input<typeof findRequest>;

export const findPage = z.object({
  revision: amount,
  /** How many artifacts match, and how many tensors in them. */
  artifacts: amount,
  tensors: amount,
  offset: amount,
  rows: listOf(
    z.object({
      key: artifactKey,
      state: z.enum(entryStates),
      name: z.string(),
      bytes: amount,
      model: z.string().nullable(),
      component: z.string().nullable(),
      representation: z.string().nullable(),
      dtype: z.string().nullable(),
      tensorParallelSize: amount.nullable(),
      tensorParallelRank: amount.nullable(),
      /** 0 where the artifact itself is what was meant. */
      matchingTensors: amount,
      /** The first few of them. */
      tensors: listOf(z.object({ name: z.string(), dtype: z.string(), shape: z.string(), bytes: amount })),
    }),
  ),
});
export type FindPage = z.infer<typeof findPage>;

/** The rest of a group, where not every artifact is listed one by one. */
const rest = z.object({ entries: amount, bytes: amount });

export const treemapArtifact = z.object({
  id: z.string(),
  key: artifactKey,
  /** As a person calls it: component and tensor parallel rank. */
  label: z.string(),
  state: z.enum(['ready', 'unserved', 'quarantined', 'building', 'leftover']),
  bytes: amount,
});

export const treemapModel = z.object({
  /** Null: nothing readable says which. */
  model: z.string().nullable(),
  entries: amount,
  bytes: amount,
  layouts: listOf(
    z.object({
      /** For example `contiguous TP2`. */
      layout: z.string().nullable(),
      entries: amount,
      bytes: amount,
      /** The largest first. */
      artifacts: listOf(treemapArtifact),
      rest,
    }),
  ),
});

export const domainSummary = z.object({
  store,
  /** Model > layout > artifact, the largest first at every level; deny markers are left out. */
  models: listOf(treemapModel),
});
export type DomainSummary = z.infer<typeof domainSummary>;

export const lockHolder = z.object({
  /** 0: the process is not visible from here. */
  pid: amount,
  command: z.string(),
  mode: z.enum(['shared', 'exclusive']),
  /** When this program first saw it hold or wait. */
  seenSinceMs: moment,
  /** One of this program's builds. */
  buildId: z.string().nullable(),
});

export const heldLock = z.object({
  /** File name below `locks/`. */
  name: z.string(),
  purpose: z.enum(['init', 'admission', 'build', 'artifact']),
  key: z.string().nullable(),
  /** Empty: held by a process that is not visible from here. */
  holders: listOf(lockHolder),
  /** Those that wait inside the kernel; those that poll are not to be seen. */
  waiters: listOf(lockHolder),
});

export const domainLocks = z.object({
  measuredAtMs: moment,
  /** Admission first, then by name. */
  held: listOf(heldLock),
  /** Lock files that nobody holds. They are never removed. */
  free: amount,
});
export type DomainLocks = z.infer<typeof domainLocks>;

/** The first event tells the revision as it is; each further one that something changed on disk. */
export const domainChange = z.object({
  revision: amount,
  measuredAtMs: moment,
  /** The store went away: ask `stores.list` why. */
  online: z.boolean(),
});
export type DomainChange = z.infer<typeof domainChange>;
