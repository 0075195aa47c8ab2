/** Values that many procedures carry: paths, keys, moments, sizes, pages of a list, and a failure on its way. */
import { z } from 'zod';
import { failureCodes, stages, type Failure } from './failure.ts';

/** Lists travel as values that nobody changes. */
export function listOf<T extends z.ZodType>(item: T): z.ZodReadonly<z.ZodArray<T>> {
  return z.array(item).readonly();
}

/** As somebody types it: absolute, relative to nothing, or beginning with `~`. The host resolves it. */
export const pathText = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0'), 'a path has no NUL');

/** The root of a store that `stores.list` names, spelt as it is there. */
export const knownRoot = pathText;

export const artifactKey = z.string().regex(/^[0-9a-f]{64}$/, 'an artifact key is 64 lower-case hex digits');

/** Of a build; opaque. */
export const buildId = z.string().min(1).max(100);

/** Bytes, or a number of things: whole, not negative, exact. */
export const amount = z.int().nonnegative();

/** Milliseconds since 1970, UTC. */
export const moment = z.number();

export const rate = z.number().nonnegative();

/** Which rows of a list: the host never sends more than `limit`. */
export const page = {
  offset: amount.default(0),
  limit: z.int().min(1).max(500).default(100),
};

export const searchText = z.string().max(200).default('');

const failureObject = z.object({
  stage: z.enum(stages),
  code: z.enum(failureCodes),
  retryable: z.boolean(),
  message: z.string(),
  details: z.record(z.string(), z.json()),
});

/** The plain type is failure.ts's; this is its door. */
export const failureValue: z.ZodType<Failure, Failure> = failureObject;
