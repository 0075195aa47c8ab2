/**
 * What an artifact is, in full: the identity document of which the artifact's key is the digest.
 * Source: host-weight store specification, section 3.
 */
import { native } from '#native';
import {
  canonicalBytes,
  canonicalJson,
  isInteger,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from './canonical-json.ts';
import { parseJsonBytes } from './json-parser.ts';

/** The document breaks a rule of its format; the message says which one and where. */
export class DocumentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'DocumentError';
  }
}

export interface IdentitySource {
  readonly model_id: string;
  readonly revision: string;
  readonly fingerprint: string;
  readonly metadata: JsonValue;
}

export interface IdentityDocument {
  readonly schema_version: number | bigint;
  readonly source: IdentitySource;
  readonly component: { readonly name: string; readonly ownership: string; readonly metadata: JsonValue };
  readonly representation: { readonly name: string; readonly dtype: string; readonly metadata: JsonValue };
  readonly layout: {
    readonly name: string;
    readonly tensor_parallel_size: number | bigint;
    readonly tensor_parallel_rank: number | bigint;
    readonly sequence_parallel_size: number | bigint;
    readonly sequence_parallel_backend: string;
    readonly metadata: JsonValue;
  };
  readonly adaptation: {
    readonly kind: string;
    readonly fingerprint: string | null;
    readonly metadata: JsonValue;
  };
  readonly producer: {
    readonly producer_id: string;
    readonly version: string;
    readonly implementation_fingerprint: string;
    readonly manifest_schema: string;
    readonly restorer_schema: string;
  };
}

/** A checked identity with its canonical text and its key (64 hex digits). Immutable. */
export class ArtifactIdentity {
  readonly document: IdentityDocument;
  readonly canonical: string;
  readonly key: string;

  private constructor(document: IdentityDocument, canonical: string) {
    this.document = document;
    this.canonical = canonical;
    this.key = native.sha256(Buffer.from(canonical, 'latin1'));
  }

  /** Throws DocumentError where a section, key or value is not as the format says. */
  static of(value: JsonValue | IdentityDocument): ArtifactIdentity {
    const document = checkIdentity(value as JsonValue);
    return new ArtifactIdentity(document, canonicalJson(document as unknown as JsonObject));
  }

  static parse(bytes: Uint8Array): ArtifactIdentity {
    return ArtifactIdentity.of(parseJsonBytes(bytes));
  }

  equals(other: ArtifactIdentity): boolean {
    return this.canonical === other.canonical;
  }
}

const sections: Record<string, readonly string[]> = {
  source: ['model_id', 'revision', 'fingerprint', 'metadata'],
  component: ['name', 'ownership', 'metadata'],
  representation: ['name', 'dtype', 'metadata'],
  layout: [
    'name',
    'tensor_parallel_size',
    'tensor_parallel_rank',
    'sequence_parallel_size',
    'sequence_parallel_backend',
    'metadata',
  ],
  adaptation: ['kind', 'fingerprint', 'metadata'],
  producer: ['producer_id', 'version', 'implementation_fingerprint', 'manifest_schema', 'restorer_schema'],
};

/** Values that are not plain non-empty text. */
const otherThanText = new Set([
  'metadata',
  'tensor_parallel_size',
  'tensor_parallel_rank',
  'sequence_parallel_size',
  'adaptation.fingerprint',
]);

function checkIdentity(value: JsonValue): IdentityDocument {
  const identity = requireKeys(value, ['schema_version', ...Object.keys(sections)], 'the identity');
  requireAtLeast(identity['schema_version'], 1, 'identity.schema_version');
  for (const [name, keys] of Object.entries(sections)) {
    const section = requireKeys(identity[name], keys, `identity.${name}`);
    for (const key of keys) {
      if (otherThanText.has(key) || otherThanText.has(`${name}.${key}`)) continue;
      requireText(section[key], `identity.${name}.${key}`);
    }
  }
  const layout = identity['layout'] as JsonObject;
  requireAtLeast(layout['tensor_parallel_size'], 1, 'identity.layout.tensor_parallel_size');
  requireAtLeast(layout['tensor_parallel_rank'], 0, 'identity.layout.tensor_parallel_rank');
  requireAtLeast(layout['sequence_parallel_size'], 1, 'identity.layout.sequence_parallel_size');
  if (BigInt(layout['tensor_parallel_rank'] as number) >= BigInt(layout['tensor_parallel_size'] as number)) {
    throw new DocumentError('identity.layout.tensor_parallel_rank must be below tensor_parallel_size');
  }
  const adaptation = identity['adaptation'] as JsonObject;
  if (adaptation['fingerprint'] !== null)
    requireText(adaptation['fingerprint'], 'identity.adaptation.fingerprint');
  else if (adaptation['kind'] !== 'base') {
    throw new DocumentError('identity.adaptation.fingerprint may be null only for the kind "base"');
  }
  return identity as unknown as IdentityDocument;
}

export function requireKeys(
  value: JsonValue | undefined,
  expected: readonly string[],
  what: string,
): JsonObject {
  if (!isJsonObject(value)) throw new DocumentError(`${what} must be an object`);
  const missing = expected.filter((key) => !Object.hasOwn(value, key));
  const extra = Object.keys(value).filter((key) => !expected.includes(key));
  if (missing.length > 0 || extra.length > 0) {
    const parts = [
      ...(missing.length > 0 ? [`lacks ${missing.join(', ')}`] : []),
      ...(extra.length > 0 ? [`has unexpected ${extra.map((key) => JSON.stringify(key)).join(', ')}`] : []),
    ];
    throw new DocumentError(`${what} ${parts.join(' and ')}`);
  }
  return value;
}

export function requireText(value: JsonValue | undefined, what: string): string {
  if (typeof value !== 'string' || value === '') throw new DocumentError(`${what} must be non-empty text`);
  return value;
}

export function requireAtLeast(value: JsonValue | undefined, least: number, what: string): number | bigint {
  if (!isInteger(value)) throw new DocumentError(`${what} must be an integer`);
  if (value < least) throw new DocumentError(`${what} must be at least ${least}`);
  return value;
}

const digestPattern = /^[0-9a-f]{64}$/;

export function requireDigest(value: JsonValue | undefined, what: string): string {
  if (typeof value !== 'string' || !digestPattern.test(value)) {
    throw new DocumentError(`${what} must be a SHA-256 digest in lower-case hex`);
  }
  return value;
}

/** SHA-256 of a value's canonical JSON, lower-case hex. */
export function canonicalDigest(value: JsonValue): string {
  return native.sha256(canonicalBytes(value));
}
