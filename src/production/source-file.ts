/**
 * The files of a checkpoint as they were when it was inspected. Whoever opens one later gets the same file
 * or a failure: an artifact must hold what its fingerprint says, and somebody may be downloading meanwhile.
 */
import { constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { native, isSystemError, type Stat } from '#native';
import { failure, FailureError } from '../contract/failure.ts';
import { reasonOf } from '../store/faults.ts';

/** What tells one state of a file from another without reading it. */
export interface FileStamp {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly sizeBytes: number;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

export interface SourceFile {
  /** Relative to the checkpoint's folder, with forward slashes. */
  readonly name: string;
  /** Absolute. May be a link, as in the Hub's snapshots. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly stamp: FileStamp;
}

export function stampOf({ dev, ino, sizeBytes, mtimeNs, ctimeNs }: Stat): FileStamp {
  return { dev, ino, sizeBytes, mtimeNs, ctimeNs };
}

function sameStamp(a: FileStamp, b: FileStamp): boolean {
  return (
    a.dev === b.dev &&
    a.ino === b.ino &&
    a.sizeBytes === b.sizeBytes &&
    a.mtimeNs === b.mtimeNs &&
    a.ctimeNs === b.ctimeNs
  );
}

/** Follows links. O_NONBLOCK, so that a FIFO under a weight file's name is an answer and not a wait. */
export function openForReading(path: string): number {
  return native.open(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

/** Opens a file that is still the inspected one. Throws FailureError where it is not. */
export function openInspected(file: SourceFile): number {
  let fd: number;
  try {
    fd = openForReading(file.path);
  } catch (error) {
    throw sourceFailure(file, error);
  }
  if (sameStamp(stampOf(native.fstat(fd)), file.stamp)) return fd;
  native.close(fd);
  throw changed(file);
}

/** Throws FailureError where the path no longer names the inspected file in its inspected state. */
export async function requireUnchanged(files: Iterable<SourceFile>): Promise<void> {
  for (const file of files) {
    let now;
    try {
      now = await stat(file.path, { bigint: true });
    } catch (error) {
      throw sourceFailure(file, error);
    }
    const { dev, ino, size, mtimeNs, ctimeNs } = now;
    if (!sameStamp({ dev, ino, sizeBytes: Number(size), mtimeNs, ctimeNs }, file.stamp)) throw changed(file);
  }
}

function changed(file: SourceFile): FailureError {
  return new FailureError(
    failure(
      'canonical_loading',
      'canonical_source_failed',
      `${file.name} changed while being read: it is no longer the file that was inspected. Something is writing to the checkpoint, perhaps a download; build again when it is done.`,
      { retryable: true, details: { path: file.path, changed: true } },
    ),
  );
}

/** A read of `file` that failed; errors that are no system errors are bugs and come back as they are. */
export function sourceFailure(file: SourceFile, error: unknown): unknown {
  if (!isSystemError(error)) return error;
  if (error.code === 'ENOENT') return changed(file);
  return new FailureError(
    failure(
      'canonical_loading',
      'canonical_source_failed',
      `${file.path} cannot be read: ${reasonOf(error)}. Check the disk, then build again.`,
      { details: { path: file.path, errno: error.code } },
    ),
  );
}
