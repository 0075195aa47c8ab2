/**
 * A database file of our own: opened, brought up to date, and given up where it can't be used. Whoever asks always
 * gets a database with the tables it knows; where the file can't be used it is one in memory, and `problem` says
 * why. Nothing in a catalog is worth failing for.
 *
 * Whoever opens holds the flock `<path>.lock` while the file is checked, migrated, or set aside, so that two
 * processes never do so to each other. SQLite's own locks guard everything after that.
 *
 * - damaged, or no database at all: set aside as `<path>.damaged` and begun anew;
 * - written by a newer version: left alone;
 * - locked, not ours to write, no room: left alone;
 * - on a network file system: no write-ahead log, which needs memory that all its users share.
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { isSystemError } from '#native';
import { monotonicMs } from '../store/clock.ts';
import { makeFolders } from '../store/directories.ts';
import { classifyFilesystem, mountOf, readMounts } from '../store/filesystem-type.ts';
import { FileLock, LockTimeout } from '../store/lock.ts';

export type Connection = Database.Database;

export interface DatabaseKind {
  /** For sentences: "the catalog". */
  readonly name: string;
  /** What is lost when the file is. */
  readonly loss: string;
  /** SQLite's application_id. */
  readonly applicationId: number;
  /** SQL that leads from each version to the next. It only ever grows at its end. */
  readonly migrations: readonly string[];
}

export interface OpenOptions {
  /** How long to wait for another process, in milliseconds. Default 2000. */
  readonly busyMs?: number;
  /** The kernel's name of the file system that a folder lies on. Default: asked of /proc. */
  readonly filesystemOf?: (folder: string) => string | null;
}

export interface OpenedDatabase {
  readonly connection: Connection;
  /** It is the file. */
  readonly isKept: boolean;
  /** What to tell a person: null while all is well. */
  readonly problem: string | null;
}

const folderMode = 0o700;

export async function openDatabase(
  path: string,
  kind: DatabaseKind,
  { busyMs = 2000, filesystemOf = filesystemType }: OpenOptions = {},
): Promise<OpenedDatabase> {
  try {
    makeFolders(dirname(path), folderMode);
    const guard = await FileLock.exclusive(`${path}.lock`, { deadline: monotonicMs() + busyMs });
    try {
      return openFile(path, kind, { busyMs, filesystemOf });
    } finally {
      guard.release();
    }
  } catch (error) {
    const why = whyUnusable(error);
    if (why === null) throw error;
    return inMemory(kind, `${kind.name} at ${path} is not used: ${why}. ${kind.loss}`);
  }
}

/** A database that ends with the process. */
export function inMemory(kind: DatabaseKind, problem: string | null): OpenedDatabase {
  const connection = new Database(':memory:');
  connection.pragma('foreign_keys = ON');
  migrate(connection, kind);
  return { connection, isKept: false, problem };
}

export function isDamage(error: unknown): boolean {
  return isSqliteError(error) && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
}

/** In words; null for what is a bug. */
export function whyUnusable(error: unknown): string | null {
  if (error instanceof NewerVersion) return error.message;
  if (error instanceof LockTimeout) return 'another process keeps it locked';
  if (isSystemError(error)) return error.message;
  if (!isSqliteError(error)) return null;
  if (/^SQLITE_(BUSY|LOCKED)/.test(error.code)) return 'another process keeps it locked';
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(error.code)) return `it is damaged (${error.message})`;
  return /^SQLITE_(CANTOPEN|READONLY|PERM|IOERR|FULL|AUTH|NOLFS|PROTOCOL)/.test(error.code)
    ? `${error.message} (${error.code})`
    : null;
}

class NewerVersion extends Error {}

function isSqliteError(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return error instanceof Database.SqliteError;
}

type Settled = Required<OpenOptions>;

function openFile(path: string, kind: DatabaseKind, options: Settled): OpenedDatabase {
  try {
    return checked(path, kind, options);
  } catch (error) {
    if (!isDamage(error)) throw error;
    setAside(path);
    const problem = `${kind.name} was damaged (${(error as Error).message}). It was set aside as ${path}.damaged and begun anew. ${kind.loss}`;
    return { ...checked(path, kind, options), problem };
  }
}

/** Throws a SqliteError, NewerVersion, or a SystemError. */
function checked(path: string, kind: DatabaseKind, { busyMs, filesystemOf }: Settled): OpenedDatabase {
  const isNew = !existsSync(path);
  const connection = new Database(path, { timeout: busyMs });
  try {
    requireOurs(connection, kind);
    const isRemote = classifyFilesystem(filesystemOf(dirname(path)) ?? '').kind === 'remote';
    const wanted = isRemote ? 'delete' : 'wal';
    const journal = connection.pragma(`journal_mode = ${wanted}`, { simple: true });
    connection.pragma('synchronous = NORMAL');
    connection.pragma('foreign_keys = ON');
    if (!isNew) requireSound(connection);
    migrate(connection, kind);
    return { connection, isKept: true, problem: journalProblem(path, kind, isRemote, String(journal)) };
  } catch (error) {
    connection.close();
    throw error;
  }
}

function journalProblem(path: string, kind: DatabaseKind, isRemote: boolean, journal: string): string | null {
  if (isRemote) {
    return `${kind.name} at ${path} lies on a network file system: it is slower there. Point the XDG folder at a disk of this machine if that is felt.`;
  }
  return journal === 'wal'
    ? null
    : `${kind.name} at ${path} lies where SQLite's write-ahead log does not work (journal mode ${journal}): it is slower there.`;
}

function requireOurs(connection: Connection, { name, applicationId, migrations }: DatabaseKind): void {
  const id = connection.pragma('application_id', { simple: true });
  const version = connection.pragma('user_version', { simple: true }) as number;
  if (id !== applicationId && (id !== 0 || version !== 0 || hasTables(connection))) {
    throw new Database.SqliteError('it is a database of another program', 'SQLITE_NOTADB');
  }
  if (version > migrations.length) {
    throw new NewerVersion(
      `a newer Weightroom wrote it (version ${version}; this one knows ${migrations.length} of ${name})`,
    );
  }
}

function hasTables(connection: Connection): boolean {
  return connection.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() !== undefined;
}

function requireSound(connection: Connection): void {
  const found = connection.pragma('quick_check(1)', { simple: true });
  if (found !== 'ok') throw new Database.SqliteError(String(found), 'SQLITE_CORRUPT');
}

/** Each step with the number of its version in one transaction: a crash leaves one version or the next. */
function migrate(connection: Connection, { applicationId, migrations }: DatabaseKind): void {
  const step = connection.transaction((): boolean => {
    const version = connection.pragma('user_version', { simple: true }) as number;
    const migration = migrations[version];
    if (migration === undefined) return false;
    connection.exec(migration);
    connection.pragma(`application_id = ${applicationId}`);
    connection.pragma(`user_version = ${version + 1}`);
    return true;
  });
  let isBehind = true;
  while (isBehind) isBehind = step.immediate();
}

function setAside(path: string): void {
  for (const companion of ['-wal', '-shm', '-journal']) rmSync(`${path}${companion}`, { force: true });
  renameSync(path, `${path}.damaged`);
}

function filesystemType(folder: string): string | null {
  return mountOf(resolve(folder), readMounts())?.type ?? null;
}
