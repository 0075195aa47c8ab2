/**
 * Every name and mode of a domain's files, in one place.
 * Source: host-weight store specification, section 1.
 */
import { randomUUID } from 'node:crypto';

export const directoryNames = ['locks', 'artifacts', 'tmp', 'quarantine', 'deny'] as const;
export type DirectoryName = (typeof directoryNames)[number];

export const domainFile = 'domain.json';
export const policyFile = 'domain-policy.json';
export const manifestFile = 'manifest.json';
export const readyFile = 'READY.json';
export const initLock = 'domain-init.lock';
/** Serialized domains only: whoever builds anything in the domain holds it. */
export const admissionLock = 'domain-build.lock';

export const modes = {
  directory: 0o700,
  lock: 0o600,
  beingWritten: 0o600,
  file: 0o444,
  artifact: 0o555,
  staging: 0o755,
  /** The sticky bit on an entry: it is not authoritative, whatever else it looks like. */
  invalidated: 0o1000,
  writable: 0o222,
  writableByOthers: 0o022,
  permissions: 0o7777,
} as const;

/** Metadata files larger than this are not read. */
export const maxMetadataBytes = 64 * 1024 ** 2;

const keyPattern = /^[0-9a-f]{64}$/;

export function isKey(text: string): boolean {
  return keyPattern.test(text);
}

/** The key that an entry's name starts with, or null where the inventory ignores the entry. */
export function keyOfName(name: string): string | null {
  const key = name.slice(0, 64);
  return isKey(key) ? key : null;
}

export function buildLock(key: string): string {
  return `${key}.build.lock`;
}

export function artifactLock(key: string): string {
  return `${key}.artifact.lock`;
}

export function denyFile(key: string): string {
  return `${key}.json`;
}

/** 32 hex digits, as Python's uuid4().hex. */
export function uuidHex(): string {
  return randomUUID().replaceAll('-', '');
}

export function stagingName(key: string): string {
  return `${key}.${process.pid}.${uuidHex()}`;
}

export type QuarantineReason =
  'validation_failure' | 'publication_failure' | 'identity-collision' | 'cleanup';

export function quarantineName(key: string, reason: QuarantineReason): string {
  return `${key}.${reason}.${uuidHex()}`;
}

/** `<key>.<reason>.<rest>` -> reason; null for a name of another shape. */
export function quarantineReason(name: string): string | null {
  const [, reason, rest] = name.slice(64).split('.');
  return reason !== undefined && rest !== undefined && reason !== '' ? reason : null;
}

/** One path component: not empty, no separator, no NUL, not a dot entry. */
export function isBasename(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !name.includes('/') && !name.includes('\0');
}
