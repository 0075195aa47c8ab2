/** One artifact: what it is, what is in it, whether it is whole. */
import { z } from 'zod';
import { heldLock, inventoryRow, validationLevels, verificationStatuses } from './domain-schemas.ts';
import {
  amount,
  artifactKey,
  failureValue,
  knownRoot,
  listOf,
  moment,
  page,
  rate,
  searchText,
} from './values.ts';

export const artifactRequest = z.strictObject({ root: knownRoot, key: artifactKey });

const share = z.object({ name: z.string(), tensors: amount, bytes: amount });

export const artifactContents = z.object({
  contentSha256: z.string(),
  producerSchema: z.string(),
  restorerSchema: z.string(),
  /** JSON, indented for reading. */
  formatMetadata: z.string(),
  files: listOf(z.object({ name: z.string(), bytes: amount, sha256: z.string() })),
  tensors: amount,
  tensorBytes: amount,
  /** The largest first. */
  bytesByDtype: listOf(share),
  /** In the order of the layers' numbers; what belongs to no layer comes last. */
  bytesByLayer: listOf(share),
});

export const artifact = z.object({
  key: artifactKey,
  /** Of the published artifact, whether there is one or not. */
  path: z.string(),
  /** Everything that the store has under this key; never empty. */
  entries: listOf(inventoryRow),
  identity: z
    .object({
      /** `source.revision` and its value as text, in the order of the format. */
      fields: listOf(z.object({ path: z.string(), value: z.string() })),
      /** JSON, indented for reading. */
      document: z.string(),
    })
    .nullable(),
  contents: artifactContents.nullable(),
  /** Why identity or contents are missing, or what is wrong with them. */
  problem: z.string().nullable(),
  /** Who builds or uses it now. */
  locks: listOf(heldLock),
});
export type Artifact = z.infer<typeof artifact>;

export const tensorSorts = ['name', 'dtype', 'bytes', 'file'] as const;

export const tensorsRequest = z.strictObject({
  root: knownRoot,
  key: artifactKey,
  /** Words that must all occur in name, dtype or file. */
  search: searchText,
  sort: z.enum(tensorSorts).default('name'),
  descending: z.boolean().default(false),
  ...page,
});
export type TensorsRequest = z.input<typeof tensorsRequest>;

export const tensorRow = z.object({
  name: z.string(),
  kind: z.enum(['parameter', 'buffer']),
  role: z.string(),
  /** Without torch's prefix. */
  dtype: z.string(),
  shape: listOf(amount),
  bytes: amount,
  fileName: z.string(),
  sha256: z.string(),
});
export type TensorRow = z.infer<typeof tensorRow>;

export const tensorsPage = z.object({
  /** Of all that match. */
  total: amount,
  totalBytes: amount,
  offset: amount,
  rows: listOf(tensorRow),
});
export type TensorsPage = z.infer<typeof tensorsPage>;

export const verifyRequest = z.strictObject({
  root: knownRoot,
  key: artifactKey,
  level: z.enum(validationLevels).default('full_checksum'),
});

export const verification = z.object({
  key: artifactKey,
  status: z.enum(verificationStatuses),
  level: z.enum(validationLevels),
  bytes: amount,
  elapsedMs: z.number().nonnegative(),
  atMs: moment,
  /** Null for `valid`. */
  failure: failureValue.nullable(),
});
export type Verification = z.infer<typeof verification>;

/** The caller's own: a caller that goes away stops it. The last event is the result. */
export const verificationEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('progress'),
    doneBytes: amount,
    totalBytes: amount,
    /** Over the last seconds; null until known. */
    bytesPerSecond: rate.nullable(),
    secondsLeft: rate.nullable(),
  }),
  z.object({ type: z.literal('result'), result: verification }),
]);
export type VerificationEvent = z.infer<typeof verificationEvent>;

export const removal = z.object({
  /** Whether anything was there. */
  removed: z.boolean(),
  removedBytes: amount,
});
