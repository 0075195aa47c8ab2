/**
 * A lease: the right to read one published artifact, held as a shared artifact lock for as long as anybody
 * may touch its bytes. Payloads are read through descriptors opened while it was checked, so what was
 * validated is what is read.
 */
import { native, isSystemError } from '#native';
import type { ArtifactIdentity } from './identity.ts';
import type { FileLock } from './lock.ts';
import type { Manifest, TensorEntry } from './manifest.ts';

export const validationLevels = ['manifest_and_metadata', 'full_checksum'] as const;
export type ValidationLevel = (typeof validationLevels)[number];

/** A run of payload bytes that tensors occupy; what a worker maps and registers. */
export interface PayloadRegion {
  readonly fileName: string;
  readonly offset: number;
  readonly length: number;
}

export interface OpenPayload {
  readonly fileName: string;
  readonly fd: number;
  readonly sizeBytes: number;
  /** Where in the file each tensor of the manifest lies, by tensor name. */
  readonly offsets: ReadonlyMap<string, number>;
  readonly regions: readonly PayloadRegion[];
}

export interface LeaseProvenance {
  readonly domainUuid: string;
  readonly publicationId: string;
  readonly validationLevel: ValidationLevel;
  /** Digest over which files, on which device, under which inodes back the lease. */
  readonly backingFingerprint: string;
}

export class Lease {
  readonly identity: ArtifactIdentity;
  readonly manifest: Manifest;
  readonly regions: readonly PayloadRegion[];
  readonly provenance: LeaseProvenance;
  readonly #payloads: ReadonlyMap<string, OpenPayload>;
  readonly #lock: FileLock;
  #closed = false;

  constructor(
    manifest: Manifest,
    payloads: readonly OpenPayload[],
    regions: readonly PayloadRegion[],
    provenance: LeaseProvenance,
    lock: FileLock,
  ) {
    this.identity = manifest.identity;
    this.manifest = manifest;
    this.regions = regions;
    this.provenance = provenance;
    this.#payloads = new Map(payloads.map((payload) => [payload.fileName, payload]));
    this.#lock = lock;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Their descriptors are the lease's, and closed with it. What is mapped from them stays mapped. */
  get payloads(): readonly OpenPayload[] {
    return [...this.#payloads.values()];
  }

  get tensorBytes(): number {
    return this.manifest.tensors.reduce((total, tensor) => total + tensor.nbytes, 0);
  }

  tensor(name: string): TensorEntry | undefined {
    return this.manifest.tensors.find((tensor) => tensor.name === name);
  }

  /** The bytes of one tensor, little-endian, in its manifest's dtype and shape. */
  async readTensor(name: string): Promise<Buffer> {
    if (this.#closed) throw new Error('the lease is closed');
    const entry = this.tensor(name);
    const payload = entry && this.#payloads.get(entry.file_name);
    const offset = payload?.offsets.get(name);
    if (entry === undefined || payload === undefined || offset === undefined) {
      throw new RangeError(`the artifact has no tensor ${JSON.stringify(name)}`);
    }
    const bytes = Buffer.allocUnsafe(entry.nbytes);
    const read = await native.pread(payload.fd, bytes, offset);
    // Closed meanwhile, the descriptor may have become another file's before the bytes were read.
    if (this.#closed) throw new Error('the lease was closed while it was read');
    if (read !== entry.nbytes) throw new Error(`the payload of ${JSON.stringify(name)} ended early`);
    return bytes;
  }

  /** Closes the payloads first: the lock must outlive every way to the bytes. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      for (const { fd } of this.#payloads.values()) native.close(fd);
      this.#lock.release();
    } catch (error) {
      // Unlocking can fail, but the descriptor is closed then too, and the lock goes with it.
      if (!isSystemError(error)) throw error;
      this.#lock.release();
    }
  }
}
