/**
 * Reading and writing the store's small JSON documents.
 * Source: host-weight store specification, section 1.
 */
import { constants } from 'node:fs';
import { native, type Stat } from '#native';
import { isJsonObject, JsonError, type JsonObject } from './canonical-json.ts';
import { jsonSteps } from './json-parser.ts';
import { DocumentError } from './identity.ts';
import { maxMetadataBytes, modes, uuidHex } from './paths.ts';
import { atOnce, inTurns, type Steps } from './turns.ts';

export function isRegularFile(stat: Stat): boolean {
  return (stat.mode & constants.S_IFMT) === constants.S_IFREG;
}

export function isDirectory(stat: Stat): boolean {
  return (stat.mode & constants.S_IFMT) === constants.S_IFDIR;
}

/** Owned by us and without any write bit. */
export function isImmutable(stat: Stat): boolean {
  return stat.uid === process.geteuid?.() && (stat.mode & modes.writable) === 0;
}

export interface ReadOptions {
  /** Refuse a file that is not ours or can be written: published metadata of a trusted domain. */
  readonly immutable?: boolean;
}

/** Throws DocumentError (not one regular file, too large, not a JSON object) or a SystemError. */
export function readDocument(directory: number, name: string, options: ReadOptions = {}): JsonObject {
  return atOnce(documentSteps(directory, name, options));
}

/** The same for a document that may be large, in the main process: others get their turns while it is parsed. */
export async function readDocumentInTurns(
  directory: number,
  name: string,
  options: ReadOptions = {},
): Promise<JsonObject> {
  return await inTurns(documentSteps(directory, name, options));
}

function* documentSteps(
  directory: number,
  name: string,
  { immutable = false }: ReadOptions,
): Steps<JsonObject> {
  const fd = native.openat(directory, name, constants.O_RDONLY | constants.O_NONBLOCK);
  let bytes: Buffer;
  try {
    bytes = readSmallFile(fd, name, immutable);
  } finally {
    native.close(fd);
  }
  try {
    const value = yield* jsonSteps(bytes, { consume: true });
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (error instanceof JsonError) throw new DocumentError(`${name} is not valid JSON: ${error.message}`);
    throw error;
  }
  throw new DocumentError(`${name} must contain an object`);
}

function readSmallFile(fd: number, name: string, immutable: boolean): Buffer {
  const stat = native.fstat(fd);
  if (!isRegularFile(stat) || stat.nlink !== 1)
    throw new DocumentError(`${name} is not a regular file with one link`);
  if (stat.sizeBytes > maxMetadataBytes) {
    throw new DocumentError(`${name} has ${stat.sizeBytes} bytes; metadata may have ${maxMetadataBytes}`);
  }
  if (immutable && !isImmutable(stat)) throw new DocumentError(`${name} is not ours or can be written`);
  // Not of the shared pool: whoever parses it gives the memory back.
  const bytes = Buffer.allocUnsafeSlow(stat.sizeBytes);
  if (native.preadSync(fd, bytes, 0) !== bytes.length) throw new DocumentError(`${name} ended early`);
  return bytes;
}

/** Creates a file that must not exist, durably, and makes it immutable. The directory is the caller's to sync. */
export async function writeImmutable(directory: number, name: string, bytes: Buffer): Promise<void> {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY;
  const fd = native.openat(directory, name, flags, modes.beingWritten);
  try {
    await native.pwrite(fd, bytes, 0);
    await native.fsync(fd);
    native.fchmod(fd, modes.file);
    await native.fsync(fd);
  } finally {
    native.close(fd);
  }
}

/** Puts a document in place in one step: readers see the old one or the new one, also after a crash. */
export async function replaceDocument(directory: number, name: string, bytes: Buffer): Promise<void> {
  const temporary = `.${name}.${process.pid}.${uuidHex()}.tmp`;
  try {
    await writeImmutable(directory, temporary, bytes);
    native.renameat(directory, temporary, directory, name);
  } catch (error) {
    try {
      native.unlinkat(directory, temporary);
    } catch {
      // The first error is the one to tell; the temporary file may never have been made.
    }
    throw error;
  }
  await native.fsync(directory);
}
