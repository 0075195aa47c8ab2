/**
 * What the build process and its supervisor say to each other: one request as a line of JSON on the child's
 * stdin, then one event per line on its stdout, the last of which is the result. The end of stdin means go.
 */
import { failed, failure, succeeded, type Failure, type Outcome } from '../contract/failure.ts';
import type { BuildPhase as StorePhase } from '../store/build.ts';
import type { IdentityDocument } from '../store/identity.ts';
import { validationLevels, type ValidationLevel } from '../store/lease.ts';
import { representationNames, type RepresentationName } from './representation.ts';

export interface BuildRequest {
  /** Absolute path of a checkpoint's folder, index or only file. */
  readonly checkpoint: string;
  /** Absolute path of a domain that is there. */
  readonly domain: string;
  readonly representation: RepresentationName;
  /** Default `model`. */
  readonly component?: string | null;
  /** Default: guessed, see provenance.ts. */
  readonly modelId?: string | null;
  readonly revision?: string | null;
  /** Bounds the waits for locks, from the first one on; null waits for ever. Default null. */
  readonly timeoutMs?: number | null;
  /** Default `manifest_and_metadata`. */
  readonly validation?: ValidationLevel | null;
}

export type BuildPhase = 'inspecting' | 'fingerprinting' | StorePhase;

export type BuildStatus = 'hit' | 'built' | 'joined' | 'timeout' | 'failed' | 'cancelled';

export interface BuildResult {
  readonly status: BuildStatus;
  /** Null as long as the identity was not known. */
  readonly key: string | null;
  readonly identity: IdentityDocument | null;
  /** Of the payload files; null without an artifact. */
  readonly artifactBytes: number | null;
  readonly elapsedMs: number;
  /** For `timeout` and `failed`. */
  readonly failure: Failure | null;
}

export type ChildEvent =
  | { readonly type: 'phase'; readonly phase: BuildPhase }
  | {
      readonly type: 'progress';
      readonly phase: BuildPhase;
      readonly bytes: number;
      readonly totalBytes: number;
    }
  | { readonly type: 'warning'; readonly message: string }
  | ({ readonly type: 'result' } & BuildResult);

/** The child's exit codes. Any other end is a crash. */
export const exitCodes = { done: 0, failed: 1, cancelled: 130 } as const;

/** Reads the request's line. A failure says which field is wrong. */
export function parseRequest(line: string): Outcome<BuildRequest> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return refuse('the request is not one line of JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refuse('the request must be a JSON object');
  }
  const fields = value as Record<string, unknown>;
  for (const [name, accepts, what] of rules) {
    if (!accepts(fields[name] ?? null)) return refuse(`"${name}" must be ${what}`);
  }
  const unknown = Object.keys(fields).find((name) => !rules.some(([known]) => known === name));
  if (unknown !== undefined) return refuse(`${JSON.stringify(unknown)} is not a field of a request`);
  return succeeded(fields as unknown as BuildRequest);
}

type Rule = readonly [name: keyof BuildRequest, accepts: (value: unknown) => boolean, what: string];

const isAbsolute = (value: unknown): boolean =>
  typeof value === 'string' && value.startsWith('/') && !value.includes('\0');
const isOptionalText = (value: unknown): boolean =>
  value === null || (typeof value === 'string' && value !== '');
const isOneOf =
  (names: readonly string[]) =>
  (value: unknown): boolean =>
    typeof value === 'string' && names.includes(value);
const isDuration = (value: unknown): boolean => typeof value === 'number' && value >= 0;

const rules: readonly Rule[] = [
  ['checkpoint', isAbsolute, 'an absolute path'],
  ['domain', isAbsolute, 'an absolute path'],
  ['representation', isOneOf(representationNames), `one of ${representationNames.join(', ')}`],
  ['component', isOptionalText, 'non-empty text or null'],
  ['modelId', isOptionalText, 'non-empty text or null'],
  ['revision', isOptionalText, 'non-empty text or null'],
  [
    'timeoutMs',
    (value) => value === null || isDuration(value),
    'a number of milliseconds, 0 or more, or null',
  ],
  [
    'validation',
    (value) => value === null || isOneOf(validationLevels)(value),
    `one of ${validationLevels.join(', ')}, or null`,
  ],
];

function refuse(why: string): Outcome<never> {
  return failed(failure('configuration', 'invalid_config', `The build cannot start: ${why}.`));
}
