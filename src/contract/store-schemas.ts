/** Stores as a whole: what one is, what it costs, and the form that makes one. */
import { z } from 'zod';
import { amount, failureValue, listOf, moment, pathText } from './values.ts';

export const admissions = ['concurrent', 'serialized'] as const;
export type Admission = (typeof admissions)[number];

export const storageClasses = ['disk', 'tmpfs'] as const;

/** The states that entries have on disk. */
export const entryStates = ['ready', 'denied', 'quarantined', 'temporary'] as const;
export type EntryState = (typeof entryStates)[number];

export const capacity = z.object({
  /** Null: no limit. */
  maxArtifactBytes: amount.nullable(),
  maxStoreBytes: amount.nullable(),
  minFreeBytes: amount,
});

export const domainFacts = z.object({
  uuid: z.string(),
  scope: z.enum(['node', 'numa']),
  domainId: z.string(),
  admission: z.enum(admissions),
  storageClass: z.enum(storageClasses),
  filesystemType: z.string(),
  policyVersion: amount,
  capacity,
  /** domain-policy.json as it is on disk: canonical JSON, one line. */
  policyDocument: z.string(),
});
export type DomainFacts = z.infer<typeof domainFacts>;

const tally = z.object({ entries: amount, bytes: amount });

export const usage = z.object({
  /** When the disk was looked at. */
  measuredAtMs: moment,
  /** Rises with every look that found a change; starts anew with the program. */
  revision: amount,
  /** Everything below the root. */
  storeBytes: amount,
  filesystemFreeBytes: amount,
  /** Published artifacts that are served. */
  ready: tally,
  /** Deny markers (a few bytes each). */
  denied: tally,
  /** Published artifacts that are denied or marked invalid: not served, rebuilt by their next build. */
  unserved: tally,
  quarantined: tally,
  /** Staged by builds that run. */
  building: tally,
  /** Staged by builds that are gone. */
  leftover: tally,
  /** Documents, locks, and what no state explains. */
  other: tally,
  /** What a cleanup could free without touching an artifact that is served. */
  reclaimableBytes: amount,
});
export type StoreUsage = z.infer<typeof usage>;

export const store = z.discriminatedUnion('state', [
  z.object({
    state: z.literal('online'),
    root: z.string(),
    /** The last component of the root. */
    name: z.string(),
    domain: domainFacts,
    usage,
  }),
  /** Missing, replaced, not ours, or on a disk that is not mounted; remembered all the same. */
  z.object({ state: z.literal('offline'), root: z.string(), name: z.string(), failure: failureValue }),
]);
export type Store = z.infer<typeof store>;

export const storeRequest = z.strictObject({ root: pathText });

/** What the form holds. Checked as it is typed, so a policy that can't be is a problem and not a failure. */
export const storePlan = z.strictObject({
  path: z.string().max(4096),
  admission: z.enum(admissions).default('serialized'),
  maxStoreBytes: z.number().nullable().default(null),
  maxArtifactBytes: z.number().nullable().default(null),
  minFreeBytes: z.number().default(0),
});
export type StorePlan = z.infer<typeof storePlan>;

export const planFields = ['path', 'admission', 'maxStoreBytes', 'maxArtifactBytes', 'minFreeBytes'] as const;

export const storeCheck = z.object({
  /** Absolute, without links; null where the text is no path. */
  path: z.string().nullable(),
  /** What is there now. `store`: create would open it if the policy is the same. */
  found: z.enum(['nothing', 'empty-folder', 'store', 'unfinished-store', 'other-folder', 'not-a-folder']),
  filesystem: z
    .object({ type: z.string(), class: z.enum(['disk', 'tmpfs', 'remote', 'unknown']) })
    .nullable(),
  /** Of the path, or of the nearest folder above it that exists. */
  owner: z.object({ uid: amount, name: z.string().nullable(), isYou: z.boolean() }).nullable(),
  /** Permission bits as `ls` and `chmod` write them: `0755`. */
  mode: z.string().nullable(),
  /** The nearest folder that exists, where the path does not. */
  nearestFolder: z.string().nullable(),
  freeBytes: amount.nullable(),
  /** Errors keep the store from being made; warnings are to be read. */
  problems: listOf(
    z.object({ field: z.enum(planFields), severity: z.enum(['error', 'warning']), message: z.string() }),
  ),
  /** The exact policy that would be written, canonical JSON in one line; null while there can't be one. */
  policyDocument: z.string().nullable(),
  /** The policy of the store that is there. */
  existingPolicyDocument: z.string().nullable(),
});
export type StoreCheck = z.infer<typeof storeCheck>;

export const createdStore = z.object({
  store,
  /** It was there already, with this policy. */
  existing: z.boolean(),
  /** What to know about a store like this. */
  notice: z.string().nullable(),
});
