/**
 * The two documents of a published artifact: manifest.json says what is in it, READY.json, written last,
 * that it is whole. Source: host-weight store specification, section 4.
 */
import { createHash } from 'node:crypto';
import {
  asciiChunks,
  canonicalBytes,
  canonicalJson,
  compareCodePoints,
  isInteger,
  type JsonObject,
  type JsonValue,
} from './canonical-json.ts';
import {
  ArtifactIdentity,
  DocumentError,
  requireAtLeast,
  requireDigest,
  requireKeys,
  requireText,
} from './identity.ts';
import { isBasename, uuidHex } from './paths.ts';
import { atOnce, type Steps } from './turns.ts';

export const tensorKinds = ['parameter', 'buffer'] as const;
export type TensorKind = (typeof tensorKinds)[number];

export interface TensorEntry {
  readonly name: string;
  readonly kind: TensorKind;
  readonly role: string;
  readonly file_name: string;
  /** The tensor's key in the payload's header. */
  readonly storage_key: string;
  readonly shape: readonly number[];
  /** As torch prints it, for example `torch.bfloat16`. */
  readonly dtype: string;
  /** In elements. */
  readonly stride: readonly number[];
  readonly nbytes: number;
  readonly sha256: string;
}

export interface FileEntry {
  readonly file_name: string;
  readonly size: number;
  readonly sha256: string;
}

export interface Manifest {
  readonly schemaVersion: number | bigint;
  readonly identity: ArtifactIdentity;
  readonly producerSchema: string;
  readonly restorerSchema: string;
  /** Sorted by name. */
  readonly tensors: readonly TensorEntry[];
  /** Sorted by name. */
  readonly files: readonly FileEntry[];
  readonly contentSha256: string;
  readonly formatMetadata: JsonValue;
}

export interface PublicationMarker {
  readonly schemaVersion: number | bigint;
  readonly publicationId: string;
  readonly manifestSha256: string;
  readonly contentSha256: string;
  readonly integrityMode: string;
}

/** The manifest's canonical text, a piece per tensor. */
function* canonicalPieces(manifest: Manifest): Iterable<string> {
  const withoutTensors = canonicalJson({
    schema_version: manifest.schemaVersion,
    artifact_key: manifest.identity.key,
    identity: manifest.identity.document as unknown as JsonObject,
    producer_schema: manifest.producerSchema,
    restorer_schema: manifest.restorerSchema,
    files: manifest.files as unknown as JsonValue[],
    artifact_content_sha256: manifest.contentSha256,
    format_metadata: manifest.formatMetadata,
  });
  // `tensors` sorts behind every other key.
  yield `${withoutTensors.slice(0, -1)},"tensors":[`;
  let separator = '';
  for (const tensor of manifest.tensors) {
    yield separator + canonicalJson(tensor as unknown as JsonObject);
    separator = ',';
  }
  yield ']}';
}

/** Canonical bytes of manifest.json. */
export function manifestBytes(manifest: Manifest): Buffer {
  return Buffer.concat([...asciiChunks(canonicalPieces(manifest))]);
}

/** SHA-256 of the canonical bytes, lower-case hex. */
export function manifestDigest(manifest: Manifest): string {
  return atOnce(manifestDigestSteps(manifest));
}

export function* manifestDigestSteps(manifest: Manifest): Steps<string> {
  const digest = createHash('sha256');
  for (const chunk of asciiChunks(canonicalPieces(manifest))) {
    digest.update(chunk);
    yield;
  }
  return digest.digest('hex');
}

/** Digest of what the tensors are and hold, whatever payload files they lie in. */
export function contentDigest(tensors: readonly TensorEntry[]): string {
  const digest = createHash('sha256');
  for (const { file_name: _file, storage_key: _key, ...semantic } of tensors) {
    digest.update(canonicalJson(semantic), 'latin1');
  }
  return digest.digest('hex');
}

const manifestKeys = [
  'schema_version',
  'artifact_key',
  'identity',
  'producer_schema',
  'restorer_schema',
  'tensors',
  'files',
  'artifact_content_sha256',
  'format_metadata',
] as const;

/** Throws DocumentError where the document is not a manifest. */
export function readManifest(value: JsonValue): Manifest {
  return atOnce(manifestSteps(value));
}

/** The same, a step per tensor. */
export function* manifestSteps(value: JsonValue): Steps<Manifest> {
  const document = requireKeys(value, manifestKeys, 'the manifest');
  const manifest: Manifest = {
    schemaVersion: requireAtLeast(document['schema_version'], 1, 'manifest.schema_version'),
    identity: ArtifactIdentity.of(document['identity'] as JsonValue),
    producerSchema: requireText(document['producer_schema'], 'manifest.producer_schema'),
    restorerSchema: requireText(document['restorer_schema'], 'manifest.restorer_schema'),
    tensors: yield* tensorSteps(requireList(document['tensors'], 'manifest.tensors')),
    files: requireList(document['files'], 'manifest.files').map(readFile),
    contentSha256: requireDigest(document['artifact_content_sha256'], 'manifest.artifact_content_sha256'),
    formatMetadata: document['format_metadata'] as JsonValue,
  };
  if (requireDigest(document['artifact_key'], 'manifest.artifact_key') !== manifest.identity.key) {
    throw new DocumentError('manifest.artifact_key is not the digest of its identity');
  }
  yield* orderSteps(manifest);
  // The value must have a canonical form; anything else would make the digest fail later and less clearly.
  canonicalJson(manifest.formatMetadata);
  return manifest;
}

/** In place, so that what was parsed can go as it is read: a hundred thousand tensors take their room. */
function* tensorSteps(entries: readonly JsonValue[]): Steps<readonly TensorEntry[]> {
  const tensors = entries as (JsonValue | TensorEntry)[];
  const repeated = new Map<string, string>();
  for (const [at, entry] of entries.entries()) {
    tensors[at] = readTensor(entry, repeated);
    yield;
  }
  return tensors as TensorEntry[];
}

function* orderSteps({ tensors, files }: Manifest): Steps<void> {
  let before: string | null = null;
  for (const { file_name: name } of files) before = requireAscending(before, name, 'manifest.files');
  const fileNames = new Set(files.map((file) => file.file_name));
  const bindings = new Set<string>();
  before = null;
  for (const tensor of tensors) {
    before = requireAscending(before, tensor.name, 'manifest.tensors');
    if (!fileNames.has(tensor.file_name)) {
      throw new DocumentError(
        `tensor ${JSON.stringify(tensor.name)} lies in a file that the manifest does not list`,
      );
    }
    bindings.add(`${tensor.file_name}/${tensor.storage_key}`);
    yield;
  }
  if (bindings.size !== tensors.length) {
    throw new DocumentError('two tensors of the manifest share one storage key in one file');
  }
}

function requireAscending(before: string | null, name: string, what: string): string {
  if (before === null || compareCodePoints(before, name) < 0) return name;
  throw new DocumentError(`${what} must be sorted by name, each name once`);
}

function requireList(value: JsonValue | undefined, what: string): readonly JsonValue[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new DocumentError(`${what} must be a list with entries`);
  return value as readonly JsonValue[];
}

/** Of a part of a large text: one that does not keep the whole of it in memory. */
function detached(text: string): string {
  return isAscii(text) ? Buffer.from(text, 'latin1').toString('latin1') : text;
}

const tensorKeys = [
  'name',
  'kind',
  'role',
  'file_name',
  'storage_key',
  'shape',
  'dtype',
  'stride',
  'nbytes',
  'sha256',
] as const;

function readTensor(value: JsonValue, repeated: Map<string, string>): TensorEntry {
  const entry = requireKeys(value, tensorKeys, 'a tensor of the manifest');
  const name = detached(requireText(entry['name'], 'tensor.name'));
  const what = `tensor ${JSON.stringify(name)}`;
  const kind = entry['kind'];
  if (kind !== 'parameter' && kind !== 'buffer') {
    throw new DocumentError(`${what}: kind must be "parameter" or "buffer"`);
  }
  const once = (text: string): string => {
    const known = repeated.get(text) ?? detached(text);
    repeated.set(known, known);
    return known;
  };
  const role = once(requireText(entry['role'], `${what}: role`));
  const storageKey = requireText(entry['storage_key'], `${what}: storage_key`);
  const dtype = once(requireText(entry['dtype'], `${what}: dtype`));
  const fileName = once(requireFileName(entry['file_name']));
  const shape = requireSizes(entry['shape'], `${what}: shape`);
  const stride = requireSizes(entry['stride'], `${what}: stride`);
  if (stride.length !== shape.length)
    throw new DocumentError(`${what}: stride must have as many entries as shape`);
  const nbytes = requireSize(entry['nbytes'], `${what}: nbytes`);
  const sha256 = detached(requireDigest(entry['sha256'], `${what}: sha256`));
  return {
    name,
    kind,
    role,
    file_name: fileName,
    storage_key: storageKey === name ? name : detached(storageKey),
    shape,
    dtype,
    stride,
    nbytes,
    sha256,
  };
}

function readFile(value: JsonValue): FileEntry {
  const entry = requireKeys(value, ['file_name', 'size', 'sha256'], 'a file of the manifest');
  const name = requireFileName(entry['file_name']);
  requireSize(entry['size'], `file ${JSON.stringify(name)}: size`);
  requireDigest(entry['sha256'], `file ${JSON.stringify(name)}: sha256`);
  return entry as unknown as FileEntry;
}

function requireFileName(value: JsonValue | undefined): string {
  if (typeof value !== 'string' || !isBasename(value)) {
    throw new DocumentError(`file_name must be one safe basename, not ${JSON.stringify(value ?? null)}`);
  }
  return value;
}

function requireSizes(value: JsonValue | undefined, what: string): readonly number[] {
  if (!Array.isArray(value)) throw new DocumentError(`${what} must be a list`);
  return value.map((item) => requireSize(item as JsonValue, what));
}

/** Sizes past the safe integers cannot belong to a file that exists, so they are refused here already. */
function requireSize(value: JsonValue | undefined, what: string): number {
  if (!isInteger(value) || value < 0)
    throw new DocumentError(`${what} must be an integer that is not negative`);
  if (typeof value === 'bigint') throw new DocumentError(`${what} is larger than any file`);
  return value;
}

const markerKeys = [
  'schema_version',
  'publication_id',
  'manifest_sha256',
  'artifact_content_sha256',
  'integrity_mode',
] as const;

/** Throws DocumentError where the document is not a publication marker. */
export function readMarker(value: JsonValue): PublicationMarker {
  const document = requireKeys(value, markerKeys, 'the publication marker');
  const publicationId = requireText(document['publication_id'], 'publication.publication_id');
  if (!isAscii(publicationId)) throw new DocumentError('publication.publication_id must be ASCII text');
  return {
    schemaVersion: requireAtLeast(document['schema_version'], 1, 'publication.schema_version'),
    publicationId,
    manifestSha256: requireDigest(document['manifest_sha256'], 'publication.manifest_sha256'),
    contentSha256: requireDigest(document['artifact_content_sha256'], 'publication.artifact_content_sha256'),
    integrityMode: requireText(document['integrity_mode'], 'publication.integrity_mode'),
  };
}

export function isAscii(text: string): boolean {
  // eslint-disable-next-line no-control-regex -- every unit below 0x80 counts
  return /^[\x00-\x7f]*$/.test(text);
}

export function markerBytes(manifestSha256: string, contentSha256: string): Buffer {
  return canonicalBytes({
    schema_version: 1,
    publication_id: uuidHex(),
    manifest_sha256: manifestSha256,
    artifact_content_sha256: contentSha256,
    integrity_mode: 'full_checksum',
  });
}
