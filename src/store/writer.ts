/**
 * The writer that a producer gets: payload files in one invisible staging directory, preallocated after a
 * capacity check, each digested while the next one is written, and at the end the manifest and, last, the marker.
 * Source: host-weight store specification, sections 4 and 6 (steps 5 and 6).
 */
import { constants } from 'node:fs';
import { native, isSystemError, newProgress, type PayloadWriter, type Progress, type Segment } from '#native';
import { compareCodePoints } from './canonical-json.ts';
import { contiguousStride, elementCount } from './dtypes.ts';
import type { ArtifactIdentity } from './identity.ts';
import {
  contentDigest,
  manifestBytes,
  markerBytes,
  type FileEntry,
  type Manifest,
  type TensorEntry,
} from './manifest.ts';
import { writeImmutable } from './metadata-file.ts';
import { isBasename, manifestFile, maxMetadataBytes, modes, readyFile } from './paths.ts';
import type { ArtifactWriter, PayloadFile, ProductionMetadata, TensorSpec } from './producer.ts';
import { encodeHeader } from './safetensors.ts';

/** The producer used its writer against the rules: a fault of the producer. */
export class WriterError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WriterError';
  }
}

/** Throws FailureError where the bytes do not fit; see checkCapacity. */
export type CapacityCheck = (projectedBytes: number, additionalBytes: number) => Promise<void>;

/** A payload whose bytes are all there. */
interface WrittenPayload {
  readonly name: string;
  readonly specs: readonly TensorSpec[];
  readonly fd: number;
  readonly headerBytes: number;
  readonly sizeBytes: number;
}

interface SealedPayload {
  readonly name: string;
  readonly specs: readonly TensorSpec[];
  readonly sizeBytes: number;
  /** Of the file, then of each tensor. */
  readonly digests: readonly string[];
}

/** Where fallocate(2) is not to be had, the size is at least declared. */
const withoutFallocate = new Set(['EINVAL', 'ENOSYS', 'EOPNOTSUPP', 'ENOTSUP']);

export class StagingWriter implements ArtifactWriter {
  readonly #staging: number;
  readonly #checkCapacity: CapacityCheck;
  readonly #open = new Set<StagedPayload>();
  readonly #names = new Set<string>();
  readonly #hashed = newProgress();
  #hashing: Promise<unknown> = Promise.resolve();
  readonly #sealed: Promise<SealedPayload>[] = [];
  #reservedBytes = 0;
  #finalized = false;

  constructor(staging: number, check: CapacityCheck) {
    this.#staging = staging;
    this.#checkCapacity = check;
  }

  async openPayload(name: string, specs: readonly TensorSpec[]): Promise<PayloadFile> {
    if (this.#finalized) throw new WriterError('the artifact is finished: no payload can be added');
    if (!isBasename(name) || !name.endsWith('.safetensors')) {
      throw new WriterError(
        `a payload's name must be one basename ending in .safetensors, not ${JSON.stringify(name)}`,
      );
    }
    if (this.#names.has(name)) throw new WriterError(`the payload ${JSON.stringify(name)} was opened before`);
    const sorted = checkSpecs(name, specs);
    this.#names.add(name);

    const tensors = sorted.map((spec) => ({ spec, nbytes: specBytes(spec) }));
    const header = encodeHeader(
      tensors.map(({ spec, nbytes }) => ({ ...spec, dtype: spec.dtype.safetensors, nbytes })),
    );
    const sizeBytes = tensors.reduce((total, { nbytes }) => total + nbytes, header.length);
    this.#reservedBytes += sizeBytes;
    try {
      await this.#checkCapacity(this.#reservedBytes, sizeBytes);
      return await this.#createPayload(name, sorted, header, sizeBytes);
    } catch (error) {
      // A producer may do without this payload: then neither its name nor its bytes may count.
      this.#reservedBytes -= sizeBytes;
      this.#names.delete(name);
      throw error;
    }
  }

  async #createPayload(
    name: string,
    specs: readonly TensorSpec[],
    header: Buffer,
    sizeBytes: number,
  ): Promise<PayloadFile> {
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR;
    const fd = native.openat(this.#staging, name, flags, modes.beingWritten);
    try {
      await preallocate(fd, sizeBytes);
      const bytes = native.payloadWriter(fd, header, sizeBytes - header.length);
      const payload = new StagedPayload(fd, specs, bytes, async () => {
        this.#open.delete(payload);
        await this.#seal({ name, specs, fd, headerBytes: header.length, sizeBytes });
      });
      this.#open.add(payload);
      return payload;
    } catch (error) {
      native.close(fd);
      // Left there it would be a file that the manifest does not list.
      native.unlinkat(this.#staging, name);
      throw error;
    }
  }

  /**
   * Goes on in the background, so that the next payload is written meanwhile; waits until the one before is
   * digested, so that what is still to be digested stays in the page cache.
   */
  async #seal(payload: WrittenPayload): Promise<void> {
    const before = this.#hashing;
    const hashing = before.then(() => digestsOf(payload, this.#hashed));
    this.#hashing = hashing.catch(() => undefined);
    const synced = syncReadOnly(payload.fd);
    const sealed = Promise.allSettled([hashing, synced])
      .then(async (): Promise<SealedPayload> => {
        const { name, specs, sizeBytes } = payload;
        await synced;
        return { name, specs, sizeBytes, digests: await hashing };
      })
      .finally(() => native.close(payload.fd));
    // Looked at in finalize() or abort(); until then a rejection must not count as unhandled.
    sealed.catch(() => undefined);
    this.#sealed.push(sealed);
    await before;
  }

  /** What digesting has done of what it has to do: all bytes as a file's and again as a tensor's. */
  get hashing(): { readonly progress: Progress; readonly totalBytes: number } {
    return { progress: this.#hashed, totalBytes: 2 * this.#reservedBytes };
  }

  /** Resolves when nothing is left to digest, or soon after `signal`; finalize() tells whether it went well. */
  async hashed(signal: AbortSignal): Promise<void> {
    const stop = (): void => {
      Atomics.store(this.#hashed, 1, 1n);
    };
    signal.addEventListener('abort', stop);
    try {
      await this.#hashing;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  /** Resolves when every payload is on disk; throws the error of the first one that is not. */
  async #synced(): Promise<SealedPayload[]> {
    await Promise.allSettled(this.#sealed);
    return await Promise.all(this.#sealed);
  }

  /** Writes manifest and marker and syncs everything. Returns what was published if it is now renamed. */
  async finalize(identity: ArtifactIdentity, metadata: ProductionMetadata): Promise<Manifest> {
    if (this.#finalized) throw new WriterError('the artifact was finished before');
    if (this.#open.size > 0) throw new WriterError('the producer left payload files open');
    if (this.#sealed.length === 0) throw new WriterError('the producer wrote no payload file');
    const { manifest_schema, restorer_schema } = identity.document.producer;
    if (metadata.producerSchema !== manifest_schema || metadata.restorerSchema !== restorer_schema) {
      throw new WriterError("the producer's schemas are not those of the identity");
    }
    const manifest = manifestOf(await this.#synced(), identity, metadata);
    const bytes = manifestBytes(manifest);
    if (bytes.length > maxMetadataBytes) {
      throw new WriterError(
        `the manifest would have ${bytes.length} bytes; readers take ${maxMetadataBytes}`,
      );
    }
    await writeImmutable(this.#staging, manifestFile, bytes);
    await writeImmutable(this.#staging, readyFile, markerBytes(native.sha256(bytes), manifest.contentSha256));
    await native.fsync(this.#staging);
    this.#finalized = true;
    return manifest;
  }

  /** Closes what is still open. The files are the caller's to remove, with the staging directory. */
  async abort(): Promise<void> {
    await Promise.all([...this.#open].map((payload) => payload.abandon()));
    this.#open.clear();
    Atomics.store(this.#hashed, 1, 1n);
    await Promise.allSettled(this.#sealed);
  }
}

function manifestOf(
  payloads: readonly SealedPayload[],
  identity: ArtifactIdentity,
  metadata: ProductionMetadata,
): Manifest {
  const tensors: TensorEntry[] = [];
  const files: FileEntry[] = [];
  for (const { name, specs, sizeBytes, digests } of payloads) {
    files.push({ file_name: name, size: sizeBytes, sha256: digests[0] as string });
    specs.forEach((spec, index) => tensors.push(tensorEntry(spec, name, digests[index + 1] as string)));
  }
  tensors.sort((a, b) => compareCodePoints(a.name, b.name));
  files.sort((a, b) => compareCodePoints(a.file_name, b.file_name));
  const twice = tensors.find((tensor, index) => tensor.name === tensors[index - 1]?.name);
  if (twice !== undefined)
    throw new WriterError(`the tensor ${JSON.stringify(twice.name)} was written to two payloads`);
  return {
    schemaVersion: 1,
    identity,
    producerSchema: metadata.producerSchema,
    restorerSchema: metadata.restorerSchema,
    tensors,
    files,
    contentSha256: contentDigest(tensors),
    formatMetadata: metadata.formatMetadata,
  };
}

async function digestsOf(payload: WrittenPayload, progress: Progress): Promise<string[]> {
  const { fd, specs, headerBytes, sizeBytes } = payload;
  let offset = headerBytes;
  const tensors = specs.map((spec) => {
    const range = { fd, offset, length: specBytes(spec) };
    offset += range.length;
    return range;
  });
  return await native.sha256Ranges([{ fd, offset: 0, length: sizeBytes }, ...tensors], progress);
}

class StagedPayload implements PayloadFile {
  readonly specs: readonly TensorSpec[];
  readonly #fd: number;
  readonly #bytes: PayloadWriter;
  readonly #written: () => Promise<void>;
  readonly #ends: readonly number[];
  readonly #order: ReadonlyMap<string, number>;
  #cursor = 0;
  #done = false;

  constructor(fd: number, specs: readonly TensorSpec[], bytes: PayloadWriter, written: () => Promise<void>) {
    this.#fd = fd;
    this.specs = specs;
    this.#bytes = bytes;
    this.#written = written;
    let end = 0;
    this.#ends = specs.map((spec) => (end += specBytes(spec)));
    this.#order = new Map(specs.map((spec, index) => [spec.name, index]));
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    this.#mustBeOpen();
    const index = this.#order.get(name);
    if (index === undefined)
      throw new WriterError(`the tensor ${JSON.stringify(name)} was not declared in this payload`);
    const start = index === 0 ? 0 : (this.#ends[index - 1] as number);
    const end = this.#ends[index] as number;
    if (this.#cursor < start || this.#cursor + bytes.length > end) {
      throw new WriterError(
        `writing ${bytes.length} bytes of ${JSON.stringify(name)} at ${this.#cursor} would leave a gap or overlap: its place is [${start}, ${end})`,
      );
    }
    this.#cursor += bytes.length;
    await this.#bytes.write(bytes);
  }

  async copy(segments: readonly Segment[], progress?: Progress): Promise<void> {
    this.#mustBeOpen();
    const targetBytes = segments.reduce((total, segment) => total + targetLength(segment), 0);
    const end = this.#ends.at(-1) as number;
    if (this.#cursor + targetBytes > end) {
      throw new WriterError(
        `copying ${targetBytes} bytes at ${this.#cursor} would run past the payload's end at ${end}`,
      );
    }
    this.#cursor += targetBytes;
    await this.#bytes.copy(segments, progress);
  }

  async close(): Promise<void> {
    this.#mustBeOpen();
    const missing = this.specs.find((_, index) => (this.#ends[index] as number) > this.#cursor);
    if (missing !== undefined) {
      throw new WriterError(
        `the payload was closed before ${JSON.stringify(missing.name)} was fully written`,
      );
    }
    this.#done = true;
    try {
      await this.#bytes.finish();
    } catch (error) {
      native.close(this.#fd);
      throw error;
    }
    await this.#written();
  }

  async abandon(): Promise<void> {
    if (this.#done) return;
    this.#done = true;
    // A call that a producer did not wait for may still write: closed under it, the descriptor could become
    // another file's, and the bytes would land there.
    await this.#bytes.finish().catch(() => undefined);
    native.close(this.#fd);
  }

  #mustBeOpen(): void {
    if (this.#done) throw new WriterError('the payload file is closed');
  }
}

function targetLength(segment: Segment): number {
  return segment.cast === 'f32-to-bf16' ? segment.length / 2 : segment.length;
}

function checkSpecs(payload: string, specs: readonly TensorSpec[]): TensorSpec[] {
  if (specs.length === 0) throw new WriterError(`the payload ${JSON.stringify(payload)} must hold a tensor`);
  const sorted = [...specs].sort((a, b) => compareCodePoints(a.name, b.name));
  sorted.forEach((spec, index) => {
    if (spec.name === '' || spec.role === '') throw new WriterError('a tensor needs a name and a role');
    if (spec.name === sorted[index - 1]?.name) {
      throw new WriterError(
        `the payload ${JSON.stringify(payload)} declares ${JSON.stringify(spec.name)} twice`,
      );
    }
    if (
      spec.shape.some((size) => !Number.isSafeInteger(size) || size < 0) ||
      !Number.isSafeInteger(specBytes(spec))
    ) {
      throw new WriterError(`the tensor ${JSON.stringify(spec.name)} has an impossible shape`);
    }
  });
  return sorted;
}

function specBytes(spec: TensorSpec): number {
  return elementCount(spec.shape) * spec.dtype.bytes;
}

function tensorEntry(spec: TensorSpec, fileName: string, sha256: string): TensorEntry {
  return {
    name: spec.name,
    kind: spec.kind,
    role: spec.role,
    file_name: fileName,
    storage_key: spec.name,
    shape: spec.shape,
    dtype: spec.dtype.torch,
    stride: contiguousStride(spec.shape),
    nbytes: specBytes(spec),
    sha256,
  };
}

async function syncReadOnly(fd: number): Promise<void> {
  native.fchmod(fd, modes.file);
  await native.fsync(fd);
}

async function preallocate(fd: number, sizeBytes: number): Promise<void> {
  try {
    await native.fallocate(fd, sizeBytes);
  } catch (error) {
    if (!isSystemError(error) || !withoutFallocate.has(error.code)) throw error;
    native.ftruncate(fd, sizeBytes);
  }
}
