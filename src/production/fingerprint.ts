/**
 * The source fingerprint: a digest over the content of every file of a checkpoint that counts, so that two
 * checkpoints have one key only if they hold the same weights. It costs one read of all weights.
 */
import { native, isSystemError, type Progress } from '#native';
import { canonicalDigest } from '../store/identity.ts';
import type { Checkpoint } from './checkpoint.ts';
import { openInspected, requireUnchanged, sourceFailure, type SourceFile } from './source-file.ts';

/** Changes when the document below does. */
const schema = 'weightroom-checkpoint-source-v1';

/** Enough for any number of threads, and few enough descriptors for any limit. */
const filesAtOnce = 64;

export interface HashedFile {
  readonly name: string;
  readonly size: number;
  readonly sha256: string;
}

export interface FingerprintOptions {
  /** Counts the bytes read. */
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/**
 * Lower-case hex. Throws FailureError where a file can't be read or is not as it was inspected, and the
 * signal's reason.
 */
export async function sourceFingerprint(
  checkpoint: Checkpoint,
  options: FingerprintOptions,
): Promise<string> {
  const hashed = await hashFiles(checkpoint.files, options);
  await requireUnchanged(checkpoint.files);
  return fingerprintOf(checkpoint, hashed);
}

/** What an index leaves out decides what is built, so it is part of what the source is. */
export function fingerprintOf({ ignored }: Checkpoint, files: readonly HashedFile[]): string {
  return canonicalDigest({
    schema,
    files: files.map(({ name, size, sha256 }) => ({ name, size, sha256 })),
    omitted_tensors: ignored.tensors.map(({ file, name }) => ({ file, name })),
  });
}

async function hashFiles(
  files: readonly SourceFile[],
  { progress, signal }: FingerprintOptions,
): Promise<HashedFile[]> {
  const hashed: HashedFile[] = [];
  const stop = (): void => {
    Atomics.store(progress, 1, 1n);
  };
  signal.addEventListener('abort', stop);
  try {
    for (let at = 0; at < files.length; at += filesAtOnce) {
      signal.throwIfAborted();
      hashed.push(...(await hashTogether(files.slice(at, at + filesAtOnce), progress, signal)));
    }
    return hashed;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

async function hashTogether(
  files: readonly SourceFile[],
  progress: Progress,
  signal: AbortSignal,
): Promise<HashedFile[]> {
  const opened: number[] = [];
  try {
    for (const file of files) opened.push(openInspected(file));
    const ranges = files.map((file, at) => ({ fd: opened[at] as number, offset: 0, length: file.sizeBytes }));
    const digests = await native.sha256Ranges(ranges, progress);
    return files.map(({ name, sizeBytes }, at) => ({ name, size: sizeBytes, sha256: digests[at] as string }));
  } catch (error) {
    if (!isSystemError(error)) throw error;
    if (error.code === 'ECANCELED') signal.throwIfAborted();
    // A file cut short while it is hashed ends early: the reader should hear of the change.
    await requireUnchanged(files);
    const file = files[error.item ?? -1];
    throw file === undefined ? error : sourceFailure(file, error);
  } finally {
    for (const fd of opened) native.close(fd);
  }
}
