/**
 * The form that makes a store, checked while somebody types: what is at the path, whether a store can be
 * there, and the exact policy that would be written. The rules are the store engine's own; each is asked, and
 * what it refuses becomes a problem at its field.
 */
import { constants } from 'node:fs';
import { access, lstat, readdir, readFile, realpath } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { isSystemError } from '#native';
import type { StoreCheck, StorePlan } from '../contract/store-schemas.ts';
import { FailureError, outcomeOf } from '../contract/failure.ts';
import { freeBytes } from '../store/capacity.ts';
import { canonicalJson } from '../store/canonical-json.ts';
import { openDomain } from '../store/domain.ts';
import { reasonOf } from '../store/faults.ts';
import { classifyFilesystem, mountOf, readMounts } from '../store/filesystem-type.ts';
import { directoryNames, domainFile, modes, policyFile } from '../store/paths.ts';
import { policyDocument } from '../store/policy.ts';
import { homeOf, type Environment } from './default-paths.ts';
import { installationFolder, whyProtected } from './protected-roots.ts';
import { absolutePath } from './user-path.ts';

type Problem = StoreCheck['problems'][number];

/** Never throws for what is typed. */
export async function checkStorePlan(plan: StorePlan, env: Environment): Promise<StoreCheck> {
  const policy = policyOf(plan);
  const path = await outcomeOf(() => absolutePath(plan.path, homeOf(env)));
  if (!path.ok) {
    const missing: Problem[] =
      plan.path.trim() === '' ? [] : [{ field: 'path', severity: 'error', message: path.failure.message }];
    return { ...nowhere, problems: [...missing, ...policy.problems], policyDocument: policy.document };
  }
  const place = await placeOf(path.value, env);
  const found = capacityProblems(plan, place);
  return {
    ...place,
    problems: [...place.problems, ...policy.problems, ...found],
    policyDocument: policy.document,
  };
}

const nowhere: Omit<StoreCheck, 'problems' | 'policyDocument'> = {
  path: null,
  found: 'nothing',
  filesystem: null,
  owner: null,
  mode: null,
  nearestFolder: null,
  freeBytes: null,
  existingPolicyDocument: null,
};

type Place = Omit<StoreCheck, 'policyDocument'>;

async function placeOf(typed: string, env: Environment): Promise<Place> {
  // The mount table is read first: a share that does not answer would keep every other look at it.
  const filesystem = filesystemOf(typed);
  const refusal = filesystemProblem(typed, filesystem);
  if (refusal !== null) return { ...nowhere, path: typed, filesystem, problems: [refusal] };
  try {
    return await localPlaceOf(typed, env);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    const message = `${typed} cannot be looked at: ${reasonOf(error)}.`;
    return { ...nowhere, path: typed, filesystem, problems: [{ field: 'path', severity: 'error', message }] };
  }
}

async function localPlaceOf(typed: string, env: Environment): Promise<Place> {
  const { path, nearest, exists } = await resolved(typed);
  const filesystem = filesystemOf(path);
  const stat = await lstat(nearest);
  const found = exists ? await whatIsAt(path) : 'nothing';
  const mode = stat.mode & modes.permissions;
  const problems: Problem[] = [];
  const refuse = (message: string): void => void problems.push({ field: 'path', severity: 'error', message });
  const refusal = filesystemProblem(path, filesystem);
  if (refusal !== null) problems.push(refusal);
  if (!stat.isDirectory()) {
    refuse(`${nearest} is not a folder, so a store can't be ${exists ? 'made of it' : 'made in it'}.`);
  } else if (!exists && !(await isWritable(nearest))) {
    refuse(
      `You may not make folders in ${nearest} (it belongs to ${ownerWords(stat.uid)}). Choose a folder of yours.`,
    );
  } else if (exists && stat.uid !== process.geteuid?.()) {
    refuse(
      `${path} belongs to ${ownerWords(stat.uid)} and not to you: a store must be under one user's control.`,
    );
  } else if (exists && (mode & modes.writableByOthers) !== 0) {
    refuse(`${path} can be written by others. Close it first: chmod go-w ${path}`);
  }
  const protection = whyProtected(path, { home: homeOf(env), ownFolders: [installationFolder] });
  if (protection !== null && stat.isDirectory()) refuse(protection.message);
  if (found === 'store') problems.push(...(await existingStoreProblems(path)));
  return {
    path,
    found,
    filesystem,
    owner: { uid: stat.uid, name: userName(stat.uid), isYou: stat.uid === process.geteuid?.() },
    mode: mode.toString(8).padStart(4, '0'),
    nearestFolder: exists ? null : nearest,
    freeBytes: stat.isDirectory() ? freeBytes(nearest) : null,
    existingPolicyDocument: found === 'store' ? await textOf(join(path, policyFile)) : null,
    problems,
  };
}

/** Links resolved as far as the path exists, and the nearest thing that is there. */
async function resolved(typed: string): Promise<{ path: string; nearest: string; exists: boolean }> {
  let existing = typed;
  const missing: string[] = [];
  for (;;) {
    try {
      const nearest = await realpath(existing);
      return { path: join(nearest, ...missing), nearest, exists: missing.length === 0 };
    } catch (error) {
      if (!isSystemError(error) || error.code !== 'ENOENT' || existing === '/') throw error;
      missing.unshift(basename(existing));
      existing = dirname(existing);
    }
  }
}

async function whatIsAt(path: string): Promise<StoreCheck['found']> {
  const stat = await lstat(path);
  if (!stat.isDirectory()) return 'not-a-folder';
  const names = await readdir(path);
  if (names.includes(domainFile)) return 'store';
  if (names.length === 0) return 'empty-folder';
  const expected = new Set<string>([...directoryNames, policyFile, 'lost+found']);
  return names.every((name) => expected.has(name)) ? 'unfinished-store' : 'other-folder';
}

/** What is there can be opened as it is; only that it can't be is a problem. */
async function existingStoreProblems(path: string): Promise<Problem[]> {
  const opened = await openDomain(path);
  return opened.ok ? [] : [{ field: 'path', severity: 'error', message: opened.failure.message }];
}

function filesystemOf(path: string): StoreCheck['filesystem'] {
  const type = mountOf(path, readMounts())?.type;
  if (type === undefined) return null;
  const classified = classifyFilesystem(type);
  return { type, class: classified.kind === 'local' ? classified.storageClass : classified.kind };
}

function filesystemProblem(path: string, filesystem: StoreCheck['filesystem']): Problem | null {
  const message = ((): string | null => {
    switch (filesystem?.class) {
      case undefined:
        return `It can't be told which file system holds ${path}.`;
      case 'remote':
        return `${path} lies on ${filesystem?.type}, a network file system: a store needs locks and a page cache that all workers of this machine share. Choose a folder on a local disk.`;
      case 'unknown':
        return `${path} lies on ${filesystem?.type}, which is not known to be a local file system. Choose a folder on a local disk (ext4, xfs, btrfs, zfs, ...) or in tmpfs.`;
      case 'disk':
      case 'tmpfs':
        return null;
    }
  })();
  return message === null ? null : { field: 'path', severity: 'error', message };
}

function policyOf(plan: StorePlan): { document: string | null; problems: Problem[] } {
  const { admission, maxStoreBytes, maxArtifactBytes, minFreeBytes } = plan;
  const none = { maxStoreBytes: null, maxArtifactBytes: null, minFreeBytes: 0 };
  const problems: Problem[] = [];
  const check = (field: Problem['field'], ask: () => unknown): void => {
    try {
      ask();
    } catch (error) {
      if (!(error instanceof FailureError)) throw error;
      problems.push({ field, severity: 'error', message: sentence(error.failure.message) });
    }
  };
  check('maxStoreBytes', () => policyDocument(admission, { ...none, maxStoreBytes }));
  check('maxArtifactBytes', () => policyDocument('concurrent', { ...none, maxArtifactBytes }));
  check('minFreeBytes', () => policyDocument('concurrent', { ...none, minFreeBytes }));
  if (problems.length > 0) return { document: null, problems };
  const document = policyDocument(admission, { maxStoreBytes, maxArtifactBytes, minFreeBytes });
  return { document: canonicalJson(document), problems };
}

/** What can be but is probably not meant. */
function capacityProblems(plan: StorePlan, place: Place): Problem[] {
  const { maxStoreBytes, maxArtifactBytes, minFreeBytes } = plan;
  const warnings: Problem[] = [];
  const warn = (field: Problem['field'], message: string): void =>
    void warnings.push({ field, severity: 'warning', message });
  if (maxStoreBytes !== null && place.freeBytes !== null && maxStoreBytes > place.freeBytes) {
    warn('maxStoreBytes', 'The limit is more than what is free on this disk now. A limit reserves nothing.');
  }
  if (place.freeBytes !== null && minFreeBytes >= place.freeBytes) {
    warn('minFreeBytes', 'No more than this is free now, so nothing could be built.');
  }
  if (maxArtifactBytes !== null && maxStoreBytes !== null && maxArtifactBytes > maxStoreBytes) {
    warn('maxArtifactBytes', 'One artifact may be larger than the whole store.');
  }
  if (place.filesystem?.class === 'tmpfs') {
    warn(
      'path',
      `${place.path} is in memory (tmpfs): its bytes are host memory, and they are gone after a restart.`,
    );
  }
  return warnings;
}

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return capital.endsWith('.') ? capital : `${capital}.`;
}

async function isWritable(folder: string): Promise<boolean> {
  return await access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function textOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}

function ownerWords(uid: number): string {
  return userName(uid) ?? `user ${uid}`;
}

/** Our own name only: others' would take a look into a directory service that may not answer. */
function userName(uid: number): string | null {
  if (uid === 0) return 'root';
  return uid === process.geteuid?.() ? userInfo().username : null;
}
