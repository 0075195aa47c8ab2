/**
 * Folders that must not become a store: those that an update, an uninstaller or a tidy-up owns, and those
 * that already hold something else. A store is later emptied by programs, so it gets a folder of its own.
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { isSystemError } from '#native';
import { failure, type Failure } from '../contract/failure.ts';
import { directoryNames, domainFile, policyFile } from '../store/paths.ts';

export interface ProtectedPlaces {
  readonly home: string;
  /** Folders that this program's own installation or update owns. */
  readonly ownFolders: readonly string[];
}

/** The folder that this program was installed into or checked out to. */
export const installationFolder = join(import.meta.dirname, '..', '..');

/** Why no store may be made at `root` (absolute, without links); null where it may. Reads, never writes. */
export function whyProtected(root: string, { home, ownFolders }: ProtectedPlaces): Failure | null {
  if (root === '/') return refused('The root of the file system cannot be a store.');
  if (root === withoutLinks(home))
    return refused(`${root} is your home directory, which holds other things.`);
  for (const folder of ownFolders.map(withoutLinks)) {
    if (root !== folder && !root.startsWith(folder + sep)) continue;
    return refused(
      `${root} lies in the program's own folder ${folder}: an update or an uninstall would take the store with it.`,
    );
  }
  const outer = storeAround(root);
  if (outer !== null) {
    return refused(`${root} lies in the store ${outer}, which counts and clears what is below it.`);
  }
  const strangers = foreignEntries(root);
  if (strangers.length === 0) return null;
  const named = strangers.slice(0, 3).join(', ') + (strangers.length > 3 ? ', ...' : '');
  return refused(`${root} is not empty and is not a store (it holds ${named}).`);
}

/** The nearest folder above that is a store. */
function storeAround(root: string): string | null {
  for (let folder = dirname(root); ; folder = dirname(folder)) {
    if (existsSync(join(folder, domainFile))) return folder;
    if (folder === dirname(folder)) return null;
  }
}

function refused(what: string): Failure {
  return failure('configuration', 'invalid_config', `${what} Choose a new or an empty folder.`);
}

function withoutLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Names that creating a store does not explain; a creation that was interrupted can be taken up again. */
function foreignEntries(directory: string): string[] {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    // Missing, no directory, or not ours to read: making the store tells that better.
    if (isSystemError(error)) return [];
    throw error;
  }
  if (names.includes(domainFile)) return [];
  const expected = new Set<string>([...directoryNames, policyFile, 'lost+found']);
  return names.filter((name) => !expected.has(name) && !/^\.domain(-policy)?\.json\..*\.tmp$/.test(name));
}
