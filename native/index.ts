/**
 * The typed face of the addon: the system calls that Node lacks, and the loops over weight bytes that
 * JavaScript is too slow for. Nothing here knows what a domain or an artifact is.
 *
 * Every descriptor is opened O_CLOEXEC, so that no child process inherits one. A failing call throws (or
 * rejects with) a SystemError. Names given to the `*at` calls are one path component each and are never
 * followed when they are links. Names that are not UTF-8 travel as Python's surrogateescape does it.
 *
 * The C++ checks every argument again: this face is for reading and for types. A wrong argument throws a
 * TypeError or RangeError at once, also where the call returns a promise. Until such a promise settles, its
 * descriptors must stay open and its buffers must be neither changed nor transferred.
 */
import { loadAddon } from './load.ts';
import type { RegistrationCalls } from './registration.ts';

export type {
  CudaDevice,
  CudaStatus,
  CudaThread,
  GpuProcesses,
  LibraryAttempt,
  LoadedLibrary,
  Mapping,
} from './registration.ts';

/** What a failed system call throws: Node's own shape, so that `code` reads the same everywhere. */
export interface SystemError extends Error {
  /** As in Node's fs, but for errno 95, which is EOPNOTSUPP here. */
  readonly code: string;
  /** The positive errno. */
  readonly errno: number;
  readonly syscall: string;
  /** Which of the things given to the call it concerns, by number, where several were. */
  readonly item?: number;
}

export function isSystemError(error: unknown): error is SystemError {
  return error instanceof Error && 'syscall' in error && typeof (error as SystemError).code === 'string';
}

export interface Stat {
  readonly dev: bigint;
  readonly ino: bigint;
  /** Type and permission bits, as st_mode. */
  readonly mode: number;
  readonly nlink: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly allocatedBytes: number;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

/** One direct child of a listed directory, with what lies below it. Links are counted, never followed. */
export interface TreeEntry {
  readonly name: string;
  readonly stat: Stat;
  /** Sum of st_size over the regular files at and below the entry. */
  readonly bytes: number;
  /** Sum of allocated blocks (512-byte units times 512) of everything at and below the entry, directories included. */
  readonly allocatedBytes: number;
  /** Those of the allocated bytes that no link from elsewhere keeps. An upper bound where blocks are shared (reflinks). */
  readonly freeableBytes: number;
  /** Number of regular files at and below the entry. */
  readonly files: number;
  /**
   * Of the entry and everything below it: device, inode, mode, size, mtime and ctime of each, mixed into 64 bits.
   * Equal as long as nothing there was written, renamed, added or removed.
   */
  readonly signature: bigint;
}

/** How a range of source bytes becomes target bytes. `none` copies. A NaN becomes 0x7FC0. */
export type Cast = 'none' | 'f32-to-bf16' | 'f16-to-bf16';

/** A run of source bytes that goes, cast, to the payload's current end. */
export interface Segment {
  readonly fd: number;
  readonly offset: number;
  /** Source bytes: a multiple of the cast's element size. */
  readonly length: number;
  readonly cast: Cast;
}

/** `length` bytes of an open file from `offset`. */
export interface FileRange {
  readonly fd: number;
  readonly offset: number;
  readonly length: number;
}

/**
 * Shared with a long native call: element 0 counts the bytes done so far (target bytes for writing, read
 * bytes for hashing); setting element 1 to non-zero makes the call stop soon and reject with ECANCELED.
 */
export type Progress = BigInt64Array;

export function newProgress(): Progress {
  return new BigInt64Array(new SharedArrayBuffer(16));
}

/**
 * Fills one payload file in order: each byte is read, cast and written once. Calls run one after another in the
 * order in which they were made, awaited or not. After a failure, ECANCELED included, every further call
 * rejects with that same failure.
 */
export interface PayloadWriter {
  /** Append target bytes. Rejects with EFBIG past the declared end. */
  write(bytes: Uint8Array): Promise<void>;
  /** Append segments one after another. A short source rejects with EIO. */
  copy(segments: readonly Segment[], progress?: Progress): Promise<void>;
  /** Resolves once every declared byte is there; rejects with EIO where bytes are missing. Does not sync. */
  finish(): Promise<void>;
}

export interface Addon extends RegistrationCalls {
  /** open(2) with O_CLOEXEC added. A missing mode is 0o666, less the umask. */
  open(path: string, flags: number, mode?: number): number;
  /** openat(2) with O_CLOEXEC | O_NOFOLLOW added; mode as for open. */
  openat(directory: number, name: string, flags: number, mode?: number): number;
  close(fd: number): void;
  fstat(fd: number): Stat;
  /** lstat(2): never follows the last component. */
  lstat(path: string): Stat;
  /** fstatat(2) with AT_SYMLINK_NOFOLLOW. */
  fstatat(directory: number, name: string): Stat;
  mkdirat(directory: number, name: string, mode: number): void;
  renameat(fromDirectory: number, from: string, toDirectory: number, to: string): void;
  unlinkat(directory: number, name: string): void;
  fchmod(fd: number, mode: number): void;
  ftruncate(fd: number, sizeBytes: number): void;
  /** Names in a directory, in no order, without `.` and `..`. Moves the descriptor's position. */
  readdir(fd: number): string[];
  /** fsync(2), off the main thread. */
  fsync(fd: number): Promise<void>;
  /** fallocate(2) from offset 0, off the main thread; EINTR is retried, EOPNOTSUPP surfaces. */
  fallocate(fd: number, sizeBytes: number): Promise<void>;
  /** pread(2) until the buffer is full or the file ends; returns the bytes read. Small reads only: it blocks. */
  preadSync(fd: number, buffer: Uint8Array, offset: number): number;
  /** pwrite(2) until all is written. Small writes only: it blocks. */
  pwriteSync(fd: number, bytes: Uint8Array, offset: number): void;
  /** Like preadSync, off the main thread and of any size. */
  pread(fd: number, buffer: Uint8Array, offset: number): Promise<number>;
  /** Like pwriteSync, off the main thread and of any size. */
  pwrite(fd: number, bytes: Uint8Array, offset: number): Promise<void>;

  /** flock(2) with LOCK_NB, EINTR retried: true when the lock was taken, false when somebody holds it. */
  flockTry(fd: number, exclusive: boolean): boolean;
  /** flock(2) LOCK_UN. */
  flockRelease(fd: number): void;

  /** SHA-256 of bytes in memory, lower-case hex. */
  sha256(bytes: Uint8Array): string;
  /** The same by the code for processors without SHA instructions; exposed for tests. */
  sha256Portable(bytes: Uint8Array): string;
  /**
   * SHA-256 of each range, in their order, on as many threads as help: the more ranges, the faster, because
   * independent digests are computed side by side. A range past its file's end rejects with EIO, and a failure's
   * `item` is the number of the range that could not be read.
   */
  sha256Ranges(ranges: readonly FileRange[], progress?: Progress): Promise<string[]>;
  /**
   * Of messages of one length (up to 16, with `avx2` 8) by the code for processors with those instructions; null
   * where this one lacks them. Exposed for tests.
   */
  sha256InLanes(kernel: 'avx512' | 'avx2', messages: readonly Uint8Array[]): string[] | null;
  /** What computes a single digest on this processor: `sha-ni` or `portable`. */
  sha256Implementation(): string;
  /** What computes many at once: `avx512`, `avx2`, `sha-ni-pair` or `none`. */
  sha256LaneImplementation(): string;

  /**
   * A writer for a payload of which `prefix` (length field and header) is written at once, at offset 0, and
   * `tensorBytes` follow. The descriptor stays the caller's. Throws, instead of rejecting later, when the
   * prefix can't be written.
   */
  payloadWriter(fd: number, prefix: Uint8Array, tensorBytes: number): PayloadWriter;
  /** Casts in memory; exposed for tests. Little-endian source elements, two target bytes each. */
  castToBfloat16(cast: Exclude<Cast, 'none'>, source: Uint8Array): Uint8Array;

  /**
   * The direct children of a directory with the bytes below each, off the main thread. What vanishes or
   * can't be read while it runs is left out of the sums, as the Python package does it.
   */
  listTree(directory: number): Promise<TreeEntry[]>;
  /** Sum of st_size over the regular files below a directory, off the main thread, with the same leniency. */
  treeBytes(directory: number): Promise<number>;
  /**
   * Removes one entry and all below it, off the main thread, making directories 0700 on the way and never
   * following or crossing a link. Nothing there is success. Stops at the first entry that can't be removed;
   * the mount point of another file system is one (EXDEV).
   */
  removeTree(directory: number, name: string): Promise<void>;

  /** prctl(PR_SET_PDEATHSIG): the kernel sends `signal` to this process when its parent ends. */
  setParentDeathSignal(signal: number): void;
}

/** Entries of a listing that become objects in one turn of the event loop: well below a millisecond's work. */
const entriesPerTurn = 256;

/** As the addon has it: what was listed is taken in pieces, until there is none. */
export interface CompiledAddon extends Omit<Addon, 'listTree'> {
  listTree(directory: number): Promise<(most: number) => TreeEntry[]>;
}

const compiled = loadAddon();

export const native: Addon = {
  ...compiled,
  listTree: (directory) => compiled.listTree(directory).then(takeAll),
};

async function takeAll(take: (most: number) => TreeEntry[]): Promise<TreeEntry[]> {
  const all: TreeEntry[] = [];
  for (;;) {
    const some = take(entriesPerTurn);
    for (const entry of some) all.push(entry);
    if (some.length < entriesPerTurn) return all;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
