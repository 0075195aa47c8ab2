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

/** One file is read while another one is hashed; more would only make a disk seek. */
const filesAtOnce = 2;

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
  const hashed = new Array<HashedFile>(files.length);
  const queue = files.entries();
  let failure: { readonly error: unknown } | null = null;
  const stop = (): void => {
    Atomics.store(progress, 1, 1n);
  };
  const work = async (): Promise<void> => {
    try {
      for (const [at, file] of queue) {
        signal.throwIfAborted();
        if (failure !== null) return;
        const sha256 = await hashFile(file, progress, signal);
        hashed[at] = { name: file.name, size: file.sizeBytes, sha256 };
      }
    } catch (error) {
      // The first one is the cause; stopping the others makes them fail too.
      failure ??= { error };
      stop();
    }
  };
  signal.addEventListener('abort', stop);
  try {
    // All end before anything is thrown: a hash that still runs would outlive its descriptor.
    await Promise.all(Array.from({ length: filesAtOnce }, work));
  } finally {
    signal.removeEventListener('abort', stop);
  }
  const ended = failure as { readonly error: unknown } | null;
  if (ended !== null) throw ended.error;
  return hashed;
}

async function hashFile(file: SourceFile, progress: Progress, signal: AbortSignal): Promise<string> {
  const fd = openInspected(file);
  try {
    return await native.sha256Range(fd, 0, file.sizeBytes, progress);
  } catch (error) {
    if (isSystemError(error) && error.code === 'ECANCELED') signal.throwIfAborted();
    // A file cut short while it is hashed ends early: the reader should hear of the change.
    await requireUnchanged([file]);
    throw sourceFailure(file, error);
  } finally {
    native.close(fd);
  }
}
