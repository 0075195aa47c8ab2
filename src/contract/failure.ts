/**
 * Failures as values: where it went wrong, what it was, whether trying again can help, and words for a
 * reader. The stages and codes are those of the host-weight store's specification and of vLLM-Omni.
 *
 * A failure travels as a value across every boundary. Inside a layer it may unwind as a FailureError, which
 * the layer's public functions turn back into the value: any other exception is a bug.
 */

export const stages = [
  'configuration',
  'domain',
  'lookup',
  'validation',
  'remote',
  'production',
  'capacity',
  'restoration',
  'lifecycle',
  'canonical_loading',
] as const;
export type Stage = (typeof stages)[number];

export const failureCodes = [
  'invalid_config',
  'cohort_policy_mismatch',
  'domain_policy_mismatch',
  'domain_unavailable',
  'storage_class_mismatch',
  'numa_placement_invalid',
  'local_miss',
  'artifact_denied',
  'active_build_timeout',
  'manifest_incompatible',
  'manifest_corrupt',
  'checksum_mismatch',
  'identity_collision',
  'remote_miss',
  'remote_unavailable',
  'remote_auth_failed',
  'remote_timeout',
  'remote_artifact_invalid',
  'producer_unavailable',
  'producer_unsupported',
  'producer_failed',
  'production_timeout',
  'artifact_too_large',
  'store_limit_exceeded',
  'insufficient_capacity',
  'enospc',
  'restorer_unavailable',
  'restore_preflight_failed',
  'restore_commit_failed',
  'active_lease',
  'publication_failed',
  'quarantine_failed',
  'canonical_source_failed',
  'unsupported',
] as const;
export type FailureCode = (typeof failureCodes)[number];

/** Plain JSON: what a failure may carry as evidence. */
export type Detail =
  null | boolean | number | string | readonly Detail[] | { readonly [key: string]: Detail };

export interface Failure {
  readonly stage: Stage;
  readonly code: FailureCode;
  /** True when the same call can succeed later without anything being repaired. */
  readonly retryable: boolean;
  /** What, why, what to do: for a person. */
  readonly message: string;
  readonly details: { readonly [key: string]: Detail };
}

export interface FailureOptions {
  readonly retryable?: boolean;
  readonly details?: Failure['details'];
}

export function failure(
  stage: Stage,
  code: FailureCode,
  message: string,
  { retryable = false, details = {} }: FailureOptions = {},
): Failure {
  return { stage, code, retryable, message, details };
}

/** A failure on its way up to the public function that returns it as a value. */
export class FailureError extends Error {
  readonly failure: Failure;

  constructor(value: Failure) {
    super(value.message);
    this.name = 'FailureError';
    this.failure = value;
  }
}

/** Either what was asked for or why not. */
export type Outcome<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: Failure };

export function succeeded<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

export function failed(value: Failure): { readonly ok: false; readonly failure: Failure } {
  return { ok: false, failure: value };
}

/** Turns a FailureError into the value it carries; lets every other exception pass, because it is a bug. */
export async function outcomeOf<T>(work: () => Promise<T> | T): Promise<Outcome<T>> {
  try {
    return succeeded(await work());
  } catch (error) {
    if (error instanceof FailureError) return failed(error.failure);
    throw error;
  }
}
