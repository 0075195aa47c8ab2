/**
 * The policy of a domain, as the document that every opener holds against its own: what it may hold and
 * whether builds are admitted one at a time. It is written once and never migrated.
 * Source: host-weight store specification, section 1.
 */
import { failure, FailureError } from '../contract/failure.ts';
import {
  canonicalJson,
  equalAsPython,
  isInteger,
  JsonFloat,
  type JsonObject,
  type JsonValue,
} from './canonical-json.ts';
import { policyFile } from './paths.ts';

export const admissions = ['concurrent', 'serialized'] as const;
export type BuildAdmission = (typeof admissions)[number];

/** Bytes. Null: no limit. */
export interface CapacityPolicy {
  readonly maxArtifactBytes: number | null;
  readonly maxStoreBytes: number | null;
  readonly minFreeBytes: number;
}

const policyKeys = [
  'schema_version',
  'policy_version',
  'max_artifact_bytes',
  'max_store_bytes',
  'min_free_bytes',
  'eviction',
];

/** The policy document that a request would write, or throws FailureError for a policy that can't be. */
export function policyDocument(
  admission: BuildAdmission = 'concurrent',
  capacity: Partial<CapacityPolicy> = {},
): JsonObject {
  const { maxArtifactBytes = null, maxStoreBytes = null, minFreeBytes = 0 } = capacity;
  if (!(admissions as readonly string[]).includes(admission)) {
    throw invalid(`"${admission}" is not a way of admitting builds: use ${admissions.join(' or ')}`);
  }
  for (const [what, value] of [
    ['largest artifact', maxArtifactBytes],
    ['store limit', maxStoreBytes],
  ] as const) {
    if (value !== null && !(Number.isSafeInteger(value) && value > 0)) {
      throw invalid(`the ${what} must be a whole number of bytes above 0, not ${value}`);
    }
  }
  if (!Number.isSafeInteger(minFreeBytes) || minFreeBytes < 0) {
    throw invalid(`the space to keep free must be a whole number of bytes, 0 or more, not ${minFreeBytes}`);
  }
  if (admission === 'serialized' && maxStoreBytes === null) {
    throw invalid(
      'serialized admission needs a store limit: without one there is nothing that builds could overfill. Give the most bytes that the store may hold.',
    );
  }
  return {
    schema_version: admission === 'serialized' ? 2 : 1,
    policy_version: 1,
    max_artifact_bytes: maxArtifactBytes,
    max_store_bytes: maxStoreBytes,
    min_free_bytes: minFreeBytes,
    eviction: 'none',
    ...(admission === 'serialized' ? { build_admission: 'serialized' } : {}),
  };
}

/** Throws FailureError where the policy found differs in anything but its version. */
export function requireSamePolicy(actual: JsonObject, requested: JsonObject, path: string): void {
  const keep = `The policy of a store never changes: use the policy it has, or another folder.`;
  if (!hasExactly(actual, Object.keys(requested))) {
    const words = Object.hasOwn(actual, 'build_admission') ? 'serialized' : 'concurrent';
    throw mismatch(
      `the store at ${path} admits builds another way (it is ${words}, schema ${printable(actual['schema_version'])}). ${keep}`,
    );
  }
  for (const [key, value] of Object.entries(requested)) {
    if (key === 'policy_version' || equalAsPython(actual[key], value)) continue;
    throw mismatch(
      `the store at ${path} has ${key} ${printable(actual[key])}, but ${printable(value)} is asked for. ${keep}`,
    );
  }
}

export interface ReadPolicy {
  readonly policyVersion: number;
  readonly capacity: CapacityPolicy;
  readonly admission: BuildAdmission;
}

/** What a policy document says, or throws FailureError where it is not one that this version knows. */
export function readPolicy(policy: JsonObject, path: string): ReadPolicy {
  const serialized = hasExactly(policy, [...policyKeys, 'build_admission']);
  if (!serialized && !hasExactly(policy, policyKeys)) {
    throw mismatch(
      `${policyFile} of ${path} has missing or unknown fields: a newer program may have made it`,
    );
  }
  const capacity: CapacityPolicy = {
    maxArtifactBytes: limit(policy['max_artifact_bytes'], 'max_artifact_bytes'),
    maxStoreBytes: limit(policy['max_store_bytes'], 'max_store_bytes'),
    minFreeBytes: whole(policy['min_free_bytes'], 'min_free_bytes', 0),
  };
  const known =
    equalAsPython(policy['schema_version'], serialized ? 2 : 1) &&
    policy['eviction'] === 'none' &&
    (!serialized || (policy['build_admission'] === 'serialized' && capacity.maxStoreBytes !== null));
  if (!known) throw mismatch(`${policyFile} of ${path} asks for something that this version does not know`);
  return {
    policyVersion: whole(policy['policy_version'], 'policy_version', 1),
    capacity,
    admission: serialized ? 'serialized' : 'concurrent',
  };
}

function limit(value: JsonValue | undefined, what: string): number | null {
  return value === null ? null : whole(value, what, 1);
}

function whole(value: JsonValue | undefined, what: string, least: number): number {
  // Workers compare with Python's ==, for which 196608.0 is as good as 196608.
  const number = value instanceof JsonFloat && what !== 'policy_version' ? value.value : value;
  if (!isInteger(number) || number < least) {
    throw mismatch(`${policyFile} has an invalid ${what}: ${printable(value)}`);
  }
  return Number(number);
}

export function hasExactly(document: JsonObject, keys: readonly string[]): boolean {
  return Object.keys(document).length === keys.length && keys.every((key) => Object.hasOwn(document, key));
}

export function printable(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  return canonicalJson(value);
}

export function invalid(message: string): FailureError {
  return new FailureError(failure('configuration', 'invalid_config', message));
}

export function mismatch(message: string): FailureError {
  return new FailureError(failure('configuration', 'domain_policy_mismatch', message));
}
