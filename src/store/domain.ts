/**
 * Domains: making one, opening one with an exact policy as a worker does, and adopting one as it is found.
 *
 * A domain is made once and its two documents never change. Opening with another policy is refused and
 * changes nothing; opting into serialized admission takes a new root.
 * Source: host-weight store specification, section 1.
 */
import { mkdirSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { native, isSystemError, type SystemError } from '#native';
import { failure, FailureError, outcomeOf, type Failure, type Outcome } from '../contract/failure.ts';
import { canonicalBytes, equalAsPython, type JsonObject } from './canonical-json.ts';
import { deadlineIn } from './clock.ts';
import { makeFolders, statChild, withDirectories } from './directories.ts';
import { isOutOfSpace, reasonOf, storageFailure } from './faults.ts';
import { classifyFilesystem, mountOf, readMounts, type StorageClass } from './filesystem-type.ts';
import { DocumentError } from './identity.ts';
import { FileLock, LockTimeout } from './lock.ts';
import { holdersOfFile } from './lock-holders.ts';
import { isAscii } from './manifest.ts';
import { isDirectory, readDocument, replaceDocument } from './metadata-file.ts';
import { directoryNames, domainFile, initLock, modes, policyFile, uuidHex } from './paths.ts';
import {
  hasExactly,
  invalid,
  mismatch,
  policyDocument,
  printable,
  readPolicy,
  requireSamePolicy,
  type BuildAdmission,
  type CapacityPolicy,
} from './policy.ts';

export const scopes = ['node', 'numa'] as const;
export type StorageScope = (typeof scopes)[number];

export interface Domain {
  /** Absolute, without links. */
  readonly root: string;
  readonly uuid: string;
  readonly scope: StorageScope;
  readonly domainId: string;
  readonly storageClass: StorageClass;
  readonly filesystemType: string;
  readonly policyVersion: number;
  readonly capacity: CapacityPolicy;
  readonly admission: BuildAdmission;
  readonly requireTrustedPermissions: boolean;
}

export interface OpenOptions {
  /** Default true, as for workers: everything must be ours and closed to others. */
  readonly requireTrustedPermissions?: boolean;
}

export interface DomainRequest extends OpenOptions {
  readonly root: string;
  readonly scope?: StorageScope;
  readonly domainId?: string;
  /** Default: what the file system is. */
  readonly storageClass?: StorageClass;
  readonly admission?: BuildAdmission;
  readonly capacity?: Partial<CapacityPolicy>;
  /** How long to wait for another process that is making the domain. Default 600 000. */
  readonly coordinationTimeoutMs?: number;
}

export interface CreatedDomain {
  readonly domain: Domain;
  /** The domain was there already, with this policy. */
  readonly existing: boolean;
}

const defaultCoordinationMs = 600_000;

/** Opens a domain that is there, with whatever policy it has. Makes and changes nothing. */
export function openDomain(root: string, options: OpenOptions = {}): Promise<Outcome<Domain>> {
  return outcomeOf(async () => {
    const path = resolveRoot(root);
    const { type, storageClass } = detectFilesystem(path);
    const trusted = options.requireTrustedPermissions ?? true;
    return await unwindSystemErrors(path, isPassing, async () => {
      requireStore(path);
      checkPermissions(path, trusted);
      return await withDirectories(path, (directories) => {
        const metadata = readDomainDocument(directories.root, path);
        requireDomainValues(metadata, { ...expectedDomain(metadata, storageClass, type) }, path);
        return adopt(path, metadata, readDocument(directories.root, policyFile), trusted);
      });
    });
  });
}

/** Opens a domain with exactly this policy, making it first where it is not there: what a worker's start does. */
export function createDomain(request: DomainRequest): Promise<Outcome<CreatedDomain>> {
  return outcomeOf(async () => {
    checkNames(request);
    const policy = policyDocument(request.admission, request.capacity);
    const path = resolveRoot(request.root);
    const { type, storageClass } = detectFilesystem(path);
    requireStorageClass(request.storageClass ?? storageClass, storageClass);
    // A worker's start counts every such error as one that a retry may cure.
    const always = (): boolean => true;
    return await unwindSystemErrors(path, always, async () => {
      makeDirectories(path);
      const trusted = request.requireTrustedPermissions ?? true;
      checkPermissions(path, trusted);
      const lock = await takeInitLock(path, request.coordinationTimeoutMs ?? defaultCoordinationMs);
      try {
        const expected: JsonObject = {
          schema_version: 1,
          scope: request.scope ?? 'node',
          domain_id: request.domainId ?? 'node',
          backend: 'local_filesystem',
          storage_class: storageClass,
          filesystem_type: type,
        };
        return await writeOrCompare(path, expected, policy, trusted);
      } finally {
        lock.release();
      }
    });
  });
}

function checkNames({ scope, domainId }: DomainRequest): void {
  if (scope !== undefined && !scopes.includes(scope)) {
    throw invalid(`"${scope}" is not a scope: use ${scopes.join(' or ')}`);
  }
  if (domainId === '') throw invalid('the domain id must not be empty');
}

/** `~` expanded, made absolute, links resolved as far as the path exists. */
export function resolveRoot(root: string): string {
  if (root === '' || root.includes('\0')) throw invalid('the path of the store must not be empty');
  if (/^~[^/]/.test(root))
    throw invalid(`${root}: only your own home directory is known as ~; write the path out`);
  const expanded = root === '~' || root.startsWith('~/') ? join(homedir(), root.slice(1)) : root;
  let existing = absolute(expanded);
  const missing: string[] = [];
  for (;;) {
    try {
      return join(realpathSync(existing), ...missing);
    } catch (error) {
      if (!isNodeError(error, 'ENOENT') || existing === '/') {
        throw new FailureError(storageFailure(error as SystemError, `cannot reach ${existing}`));
      }
      missing.unshift(basename(existing));
      existing = dirname(existing);
    }
  }
}

/** Names that are not UTF-8 reach us with U+FFFD in them, and would name something else from then on. */
function absolute(path: string): string {
  let full: string;
  try {
    full = resolve(path);
  } catch (error) {
    if (!isNodeError(error, 'ENOENT')) throw error;
    throw invalid(`${path} is relative, and the working directory is gone`);
  }
  if (full.includes('\ufffd')) throw invalid(`the path ${full} is not UTF-8; a store needs one that is`);
  return full;
}

function isNodeError(error: unknown, code: string): boolean {
  return isSystemError(error) && error.code === code;
}

export interface DetectedFilesystem {
  readonly type: string;
  readonly storageClass: StorageClass;
}

/** Throws FailureError where a store can't live on the path's file system. */
export function detectFilesystem(path: string, mountinfoPath?: string): DetectedFilesystem {
  const type = mountOf(path, readMounts(mountinfoPath))?.type;
  if (type === undefined) throw mismatch(`cannot tell which file system holds ${path}`);
  const found = classifyFilesystem(type);
  if (found.kind === 'local') return { type, storageClass: found.storageClass };
  throw mismatch(
    found.kind === 'remote'
      ? `${path} lies on ${type}, a network or remote file system: a store needs locks and a page cache that all workers of this machine share. Choose a folder on a local disk.`
      : `${path} lies on ${type}, which is not known to be a local file system. Choose a folder on a local disk (ext4, xfs, btrfs, zfs, ...) or in tmpfs.`,
  );
}

function requireStorageClass(configured: StorageClass, detected: StorageClass): void {
  if (configured === detected) return;
  throw new FailureError(
    failure(
      'domain',
      'storage_class_mismatch',
      `the store was asked for as ${configured}, but its file system is ${detected}`,
    ),
  );
}

/** System errors of opening are `domain_unavailable`; malformed documents are a mismatch that no retry cures. */
async function unwindSystemErrors<T>(
  path: string,
  retryable: (error: SystemError) => boolean,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isSystemError(error)) throw new FailureError(unavailable(path, error, retryable(error)));
    if (error instanceof DocumentError)
      throw mismatch(`the store at ${path} is not usable: ${error.message}`);
    throw error;
  }
}

const lastingCodes = new Set(['EACCES', 'ELOOP', 'ENAMETOOLONG', 'ENOTDIR', 'EPERM']);

/** Whether the error can be gone by the next time without anybody repairing something. */
function isPassing(error: SystemError): boolean {
  return !lastingCodes.has(error.code);
}

function unavailable(path: string, error: SystemError, retryable: boolean): Failure {
  return failure(
    'domain',
    'domain_unavailable',
    `the store at ${path} cannot be opened: ${reasonOf(error)}`,
    {
      retryable,
      details: { errno: error.code, out_of_space: isOutOfSpace(error) },
    },
  );
}

function requireStore(path: string): void {
  let stat;
  try {
    stat = native.lstat(path);
  } catch (error) {
    if (!isNodeError(error, 'ENOENT')) throw error;
    throw new FailureError(
      failure(
        'domain',
        'domain_unavailable',
        `there is nothing at ${path}: is the disk mounted, is the path right? A new store is made with \`weightroom domain create\`.`,
        {
          retryable: true,
        },
      ),
    );
  }
  if (!isDirectory(stat)) throw invalid(`${path} is not a directory`);
  try {
    native.lstat(join(path, domainFile));
  } catch (error) {
    if (!isNodeError(error, 'ENOENT')) throw error;
    throw invalid(
      `${path} is not a host-weight store: it has no ${domainFile}. A new store is made with \`weightroom domain create\`, in a folder of its own.`,
    );
  }
}

function makeDirectories(path: string): void {
  makeFolders(dirname(path));
  for (const directory of [path, ...directoryNames.map((name) => join(path, name))]) {
    try {
      mkdirSync(directory, { mode: modes.directory });
    } catch (error) {
      if (!isNodeError(error, 'EEXIST')) throw error;
    }
  }
}

function checkPermissions(path: string, trusted: boolean): void {
  if (!trusted) return;
  for (const directory of [path, ...directoryNames.map((name) => join(path, name))]) {
    const stat = native.lstat(directory);
    const uid = process.geteuid?.();
    const problem = !isDirectory(stat)
      ? 'is not a directory'
      : stat.uid !== uid
        ? `belongs to user ${stat.uid} and not to you (${uid})`
        : (stat.mode & modes.writableByOthers) !== 0
          ? 'can be written by others (chmod go-w it)'
          : null;
    if (problem === null) continue;
    throw new FailureError(
      failure(
        'domain',
        'domain_unavailable',
        `${directory} ${problem}: a store must be under one user's exclusive control`,
        { details: { path: directory } },
      ),
    );
  }
}

async function takeInitLock(path: string, timeoutMs: number): Promise<FileLock> {
  const lockPath = join(path, 'locks', initLock);
  try {
    return await FileLock.exclusive(lockPath, { deadline: deadlineIn(timeoutMs) });
  } catch (error) {
    if (!(error instanceof LockTimeout)) throw error;
    const holders = holdersOfFile(lockPath).map((holder) => `process ${holder.pid} (${holder.command})`);
    const who = holders.length > 0 ? holders.join(', ') : 'a process that is not visible from here';
    throw new FailureError(
      failure(
        'domain',
        'domain_unavailable',
        `the store at ${path} is still being opened by ${who}, after ${timeoutMs / 1000} s of waiting. End that process if it is stuck; do not delete the lock file.`,
        { retryable: true, details: { lock: lockPath, holders } },
      ),
    );
  }
}

async function writeOrCompare(
  path: string,
  expected: JsonObject,
  policy: JsonObject,
  trusted: boolean,
): Promise<CreatedDomain> {
  return await withDirectories(path, async ({ root }) => {
    if (statChild(root, domainFile) === null) {
      await replaceDocument(root, domainFile, canonicalBytes({ ...expected, domain_uuid: uuidHex() }));
    }
    const metadata = readDomainDocument(root, path);
    requireDomainValues(metadata, expected, path);

    const existing = statChild(root, policyFile) !== null;
    if (!existing) await replaceDocument(root, policyFile, canonicalBytes(policy));
    const actual = readDocument(root, policyFile);
    requireSamePolicy(actual, policy, path);
    return { domain: adopt(path, metadata, actual, trusted), existing };
  });
}

const domainKeys = [
  'schema_version',
  'domain_uuid',
  'scope',
  'domain_id',
  'backend',
  'storage_class',
  'filesystem_type',
] as const;

function readDomainDocument(root: number, path: string): JsonObject {
  const metadata = readDocument(root, domainFile);
  if (!hasExactly(metadata, domainKeys))
    throw mismatch(`${domainFile} of ${path} has missing or unknown fields`);
  const uuid = metadata['domain_uuid'];
  if (typeof uuid !== 'string' || uuid === '' || !isAscii(uuid)) {
    throw mismatch(`${domainFile} of ${path} has no usable domain_uuid`);
  }
  return metadata;
}

/** What adopting demands of a document: its own scope and id if they are valid, and this file system. */
function expectedDomain(metadata: JsonObject, storageClass: StorageClass, type: string): JsonObject {
  const id = metadata['domain_id'];
  return {
    schema_version: 1,
    scope: scopes.find((scope) => scope === metadata['scope']) ?? 'node',
    domain_id: typeof id === 'string' && id !== '' ? id : 'node',
    backend: 'local_filesystem',
    storage_class: storageClass,
    filesystem_type: type,
  };
}

function requireDomainValues(metadata: JsonObject, expected: JsonObject, path: string): void {
  for (const [key, value] of Object.entries(expected)) {
    if (equalAsPython(metadata[key], value)) continue;
    throw mismatch(
      `${domainFile} of ${path} says ${key} ${printable(metadata[key])}, but ${printable(value)} is asked for or found`,
    );
  }
}

function adopt(path: string, metadata: JsonObject, policy: JsonObject, trusted: boolean): Domain {
  return {
    root: path,
    uuid: metadata['domain_uuid'] as string,
    scope: metadata['scope'] as StorageScope,
    domainId: metadata['domain_id'] as string,
    storageClass: metadata['storage_class'] as StorageClass,
    filesystemType: metadata['filesystem_type'] as string,
    requireTrustedPermissions: trusted,
    ...readPolicy(policy, path),
  };
}
