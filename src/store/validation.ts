/**
 * The checks between a directory under `artifacts/` and a lease, in the order of the specification:
 * everything is opened relative to the entry's own descriptor, and nothing is written.
 * Source: host-weight store specification, section 5, steps 3 and 4.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { native, type Progress } from '#native';
import { failure, FailureError, type FailureCode } from '../contract/failure.ts';
import { canonicalBytes } from './canonical-json.ts';
import { openDirectory } from './directories.ts';
import type { Domain } from './domain.ts';
import { dtypeOfSafetensors, contiguousStride } from './dtypes.ts';
import { DocumentError, type ArtifactIdentity } from './identity.ts';
import type { LeaseProvenance, OpenPayload, PayloadRegion, ValidationLevel } from './lease.ts';
import {
  manifestDigestSteps,
  manifestSteps,
  readMarker,
  type FileEntry,
  type Manifest,
  type TensorEntry,
} from './manifest.ts';
import { isImmutable, isRegularFile, readDocument, readDocumentInTurns } from './metadata-file.ts';
import { manifestFile, modes, readyFile } from './paths.ts';
import { readHeader, type HeaderTensor } from './safetensors.ts';
import { inTurns, turn } from './turns.ts';

export interface ValidatedArtifact {
  readonly manifest: Manifest;
  readonly payloads: readonly OpenPayload[];
  readonly regions: readonly PayloadRegion[];
  readonly provenance: LeaseProvenance;
}

export interface ValidationOptions {
  readonly level: ValidationLevel;
  /** Counts hashed bytes at the full level; cancels it. */
  readonly progress?: Progress | undefined;
  /** Its name in the directory where that is not the key: of what is in quarantine. */
  readonly name?: string;
}

/**
 * Opens and checks the entry of `identity.key` in `directory`, `artifacts/` mostly. Throws FailureError for what the specification gives a code
 * of its own, DocumentError or PayloadError for other malformations, SystemError for what could not be read.
 */
export async function validateEntry(
  domain: Domain,
  directory: number,
  identity: ArtifactIdentity,
  options: ValidationOptions,
): Promise<ValidatedArtifact> {
  const trusted = domain.requireTrustedPermissions;
  const entry = openDirectory(directory, options.name ?? identity.key);
  const payloads: OpenPayload[] = [];
  try {
    const stat = native.fstat(entry);
    if ((stat.mode & modes.invalidated) !== 0) {
      throw new FailureError(
        failure(
          'lookup',
          'artifact_denied',
          `artifact ${identity.key} is marked invalid and waits to be quarantined`,
        ),
      );
    }
    if (trusted && !isImmutable(stat))
      throw new DocumentError('the artifact directory is not ours or can be written');
    const names = native.readdir(entry);
    const markerDocument = readDocument(entry, readyFile, { immutable: trusted });
    const manifestDocument = await readDocumentInTurns(entry, manifestFile, { immutable: trusted });
    const marker = readMarker(markerDocument);
    const manifest = await inTurns(manifestSteps(manifestDocument));
    if (
      marker.schemaVersion !== 1 ||
      manifest.schemaVersion !== 1 ||
      marker.integrityMode !== 'full_checksum'
    ) {
      throw refused(
        'manifest_incompatible',
        'its publication schema or integrity mode is not one that is known',
      );
    }
    requireNames(names, manifest);
    if (marker.manifestSha256 !== (await inTurns(manifestDigestSteps(manifest)))) {
      throw refused('checksum_mismatch', 'the manifest does not have the digest that READY.json records');
    }
    if (marker.contentSha256 !== manifest.contentSha256) {
      throw refused('checksum_mismatch', 'READY.json and the manifest name different content digests');
    }
    requireIdentity(manifest, identity);
    payloads.push(...(await openPayloads(entry, manifest, domain, options)));
    const fingerprint = backingFingerprint(payloads, domain.uuid, marker.publicationId);
    return {
      manifest,
      payloads,
      regions: payloads.flatMap((payload) => payload.regions),
      provenance: {
        domainUuid: domain.uuid,
        publicationId: marker.publicationId,
        validationLevel: options.level,
        backingFingerprint: fingerprint,
      },
    };
  } catch (error) {
    for (const { fd } of payloads) native.close(fd);
    throw error;
  } finally {
    native.close(entry);
  }
}

function refused(code: FailureCode, message: string): FailureError {
  return new FailureError(failure('validation', code, message));
}

function requireNames(names: readonly string[], manifest: Manifest): void {
  const expected = new Set([readyFile, manifestFile, ...manifest.files.map((file) => file.file_name)]);
  const found = new Set(names);
  const missing = [...expected].filter((name) => !found.has(name));
  const extra = names.filter((name) => !expected.has(name));
  if (missing.length === 0 && extra.length === 0) return;
  throw new DocumentError(
    `the directory's entries are not those of the manifest (missing: ${missing.join(', ') || 'none'}; unexpected: ${extra.join(', ') || 'none'})`,
  );
}

function requireIdentity(manifest: Manifest, identity: ArtifactIdentity): void {
  if (!manifest.identity.equals(identity)) {
    throw refused('manifest_incompatible', 'the manifest describes another identity than the one asked for');
  }
  const producer = identity.document.producer;
  if (
    manifest.producerSchema !== producer.manifest_schema ||
    manifest.restorerSchema !== producer.restorer_schema
  ) {
    throw refused(
      'manifest_incompatible',
      "the manifest's producer or restorer schema is not the identity's",
    );
  }
}

/** All files are hashed together, but the first one in order with a fault decides, as if they came one by one. */
async function openPayloads(
  entry: number,
  manifest: Manifest,
  domain: Domain,
  { level, progress }: ValidationOptions,
): Promise<OpenPayload[]> {
  const { files } = manifest;
  const opened: number[] = [];
  try {
    let fault: { readonly error: unknown } | null = null;
    for (const file of files) {
      try {
        opened.push(openPayload(entry, file, domain));
      } catch (error) {
        fault = { error };
        break;
      }
    }
    const ranges = opened.map((fd, at) => ({ fd, offset: 0, length: (files[at] as FileEntry).size }));
    const digests = level === 'full_checksum' ? await native.sha256Ranges(ranges, progress) : null;
    const tensors = Map.groupBy(manifest.tensors, (tensor) => tensor.file_name);
    const payloads: OpenPayload[] = [];
    for (const [at, fd] of opened.entries()) {
      const file = files[at] as FileEntry;
      if (digests !== null && digests[at] !== file.sha256) {
        throw refused(
          'checksum_mismatch',
          `${named(file)} does not have the digest that the manifest records: its bytes have changed`,
        );
      }
      payloads.push(await readPayload(fd, file, tensors.get(file.file_name) ?? []));
    }
    if (fault !== null) throw fault.error;
    return payloads;
  } catch (error) {
    for (const fd of opened) native.close(fd);
    throw error;
  }
}

function named(file: FileEntry): string {
  return `payload ${JSON.stringify(file.file_name)}`;
}

/** The descriptor of a payload that is what the manifest says as far as its inode tells. */
function openPayload(entry: number, file: FileEntry, domain: Domain): number {
  const fd = native.openat(entry, file.file_name, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = native.fstat(fd);
    if (!isRegularFile(stat) || stat.nlink !== 1)
      throw new DocumentError(`${named(file)} is not a regular file with one link`);
    if (stat.sizeBytes !== file.size) {
      throw refused(
        'checksum_mismatch',
        `${named(file)} has ${stat.sizeBytes} bytes where the manifest says ${file.size}`,
      );
    }
    if (domain.requireTrustedPermissions && !isImmutable(stat)) {
      throw new DocumentError(`${named(file)} is not ours or can be written`);
    }
    return fd;
  } catch (error) {
    native.close(fd);
    throw error;
  }
}

async function readPayload(
  fd: number,
  file: FileEntry,
  tensors: readonly TensorEntry[],
): Promise<OpenPayload> {
  const header = await readHeader(fd, file.size);
  await turn();
  const offsets = matchTensors(tensors, header.tensors, header.dataOffset, named(file));
  const regions = regionsOf(file.file_name, tensors, offsets);
  return { fileName: file.file_name, fd, sizeBytes: file.size, offsets, regions };
}

function matchTensors(
  expected: readonly TensorEntry[],
  found: readonly HeaderTensor[],
  dataOffset: number,
  what: string,
): Map<string, number> {
  const stored = new Map(found.map((tensor) => [tensor.name, tensor]));
  const offsets = new Map<string, number>();
  if (stored.size !== expected.length) {
    throw new DocumentError(
      `${what} holds ${stored.size} tensors where the manifest lists ${expected.length}`,
    );
  }
  for (const entry of expected) {
    const tensor = stored.get(entry.storage_key);
    if (tensor === undefined)
      throw new DocumentError(`${what} lacks the tensor ${JSON.stringify(entry.storage_key)}`);
    const same =
      dtypeOfSafetensors(tensor.dtype)?.torch === entry.dtype &&
      sameSizes(tensor.shape, entry.shape) &&
      sameSizes(contiguousStride(entry.shape), entry.stride) &&
      tensor.end - tensor.start === entry.nbytes;
    if (!same) {
      throw new DocumentError(
        `tensor ${JSON.stringify(entry.name)} has another dtype, shape, stride or size in ${what} than in the manifest`,
      );
    }
    offsets.set(entry.name, dataOffset + tensor.start);
  }
  return offsets;
}

function sameSizes(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, index) => size === b[index]);
}

/** Merged, sorted spans of the file's tensors that have bytes; touching spans become one. */
function regionsOf(
  fileName: string,
  tensors: readonly TensorEntry[],
  offsets: ReadonlyMap<string, number>,
): PayloadRegion[] {
  const spans = tensors
    .filter((tensor) => tensor.nbytes > 0)
    .map((tensor) => {
      const start = offsets.get(tensor.name) as number;
      return { start, end: start + tensor.nbytes };
    });
  spans.sort((a, b) => a.start - b.start);
  const merged: { start: number; end: number }[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last !== undefined && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else merged.push({ ...span });
  }
  return merged.map(({ start, end }) => ({ fileName, offset: start, length: end - start }));
}

function backingFingerprint(
  payloads: readonly OpenPayload[],
  domainUuid: string,
  publicationId: string,
): string {
  const digest = createHash('sha256');
  for (const payload of payloads) {
    const stat = native.fstat(payload.fd);
    digest.update(
      canonicalBytes({ file: payload.fileName, device: stat.dev, inode: stat.ino, size: payload.sizeBytes }),
    );
  }
  return digest.update(domainUuid, 'latin1').update(publicationId, 'latin1').digest('hex');
}
