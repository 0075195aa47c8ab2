/**
 * Publication: the finished staging directory becomes `artifacts/<key>` in one rename, and the sync of
 * `artifacts/` is the commit. What fails after the rename is marked and taken out again, so that no later
 * lookup can serve what may not be durable.
 * Source: host-weight store specification, section 6, step 7.
 */
import { join } from 'node:path';
import { native, isSystemError, type SystemError } from '#native';
import { failure, type Detail, type Failure } from '../contract/failure.ts';
import { canonicalJson } from './canonical-json.ts';
import { openDirectory, requireSameRoot, statChild, type DomainDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { errorDetail, isStructural, reasonOf, storageFailure } from './faults.ts';
import { FileLock } from './lock.ts';
import { readManifest, type Manifest } from './manifest.ts';
import { readDocument } from './metadata-file.ts';
import { markInvalidated, moveEntry, quarantineEntry, removeDenyMarker } from './move.ts';
import { artifactLock, denyFile, manifestFile, modes, quarantineName } from './paths.ts';

export interface Publication {
  readonly domain: Domain;
  readonly directories: DomainDirectories;
  readonly stagingName: string;
  readonly manifest: Manifest;
  readonly warn: (message: string) => void;
}

/** Null once the key's artifact is authoritative, whether it is this one or an equal one that came first. */
export async function publish(publication: Publication): Promise<Failure | null> {
  const key = publication.manifest.identity.key;
  const attempt: Attempt = { authoritative: false, failure: null };
  try {
    requireSameRoot(publication.domain.root, publication.directories);
    const lock = await FileLock.exclusive(join(publication.domain.root, 'locks', artifactLock(key)), {
      deadline: null,
    });
    try {
      // Again: waiting for the lock can have taken long.
      requireSameRoot(publication.domain.root, publication.directories);
      await publishLocked(publication, attempt);
    } finally {
      lock.release();
    }
  } catch (error) {
    if (!isSystemError(error) && !isStructural(error)) throw error;
    if (attempt.authoritative) {
      publication.warn(`artifact ${key} is published; an error came after that: ${error.message}`);
    } else {
      attempt.failure ??= failure('lifecycle', 'publication_failed', publicationMessage(key, error));
    }
  }
  // A collision was moved away and a published staging has another name now: for both this finds nothing.
  if (attempt.failure !== null || attempt.authoritative) {
    await discardStaging(publication.domain, publication.directories, key, publication.stagingName);
  }
  return attempt.authoritative ? null : attempt.failure;
}

interface Attempt {
  /** From here on the artifact counts as published, whatever else goes wrong. */
  authoritative: boolean;
  failure: Failure | null;
}

function publicationMessage(key: string, error: Error): string {
  return `artifact ${key} could not be published: ${isSystemError(error) ? reasonOf(error) : error.message}`;
}

async function publishLocked(publication: Publication, attempt: Attempt): Promise<void> {
  const { directories, manifest, stagingName } = publication;
  const key = manifest.identity.key;
  if (statChild(directories.artifacts, key) === null) {
    await commit(publication, attempt);
    return;
  }
  if (!sameArtifact(readCompeting(directories, key, attempt), manifest)) {
    const name = quarantineName(key, 'identity-collision');
    await moveEntry(
      { directory: directories.tmp, name: stagingName },
      { directory: directories.quarantine, name },
    );
    attempt.failure = failure(
      'validation',
      'identity_collision',
      `artifact ${key} is there already with other content: the same identity was produced in two ways. What was built now is kept as quarantine/${name}.`,
      { details: { quarantined: name } },
    );
    return;
  }
  attempt.authoritative = true;
  await native.removeTree(directories.tmp, stagingName);
  await removeDenyMarker(directories, denyFile(key));
}

function readCompeting({ artifacts }: DomainDirectories, key: string, attempt: Attempt): Manifest {
  let document;
  try {
    const entry = openDirectory(artifacts, key);
    try {
      document = readDocument(entry, manifestFile);
    } finally {
      native.close(entry);
    }
  } catch (error) {
    if (isSystemError(error)) {
      attempt.failure = storageFailure(
        error,
        `artifact ${key} was published by somebody else and cannot be read`,
        {
          outcome_uncertain: true,
          competing_entry: 'preserved',
        },
      );
    }
    throw error;
  }
  return readManifest(document);
}

function sameArtifact(a: Manifest, b: Manifest): boolean {
  return (
    a.identity.equals(b.identity) &&
    a.contentSha256 === b.contentSha256 &&
    a.producerSchema === b.producerSchema &&
    a.restorerSchema === b.restorerSchema &&
    canonicalJson(a.formatMetadata) === canonicalJson(b.formatMetadata)
  );
}

async function commit({ directories, manifest, stagingName }: Publication, attempt: Attempt): Promise<void> {
  const { artifacts, tmp } = directories;
  const key = manifest.identity.key;
  let renamed = false;
  try {
    native.renameat(tmp, stagingName, artifacts, key);
    renamed = true;
    const entry = openDirectory(artifacts, key);
    try {
      native.fchmod(entry, modes.artifact);
      await native.fsync(entry);
    } finally {
      native.close(entry);
    }
    await native.fsync(tmp);
    await removeDenyMarker(directories, denyFile(key));
    await native.fsync(artifacts);
    attempt.authoritative = true;
  } catch (error) {
    if (renamed && isSystemError(error)) attempt.failure = await contain(directories, key, error);
    throw error;
  }
}

/** Keeps a publication whose outcome is uncertain from becoming a hit later. */
async function contain(directories: DomainDirectories, key: string, error: SystemError): Promise<Failure> {
  const containment: Record<string, Detail> = {};
  let markError: unknown = null;
  try {
    const entry = openDirectory(directories.artifacts, key);
    try {
      await markInvalidated(entry);
      containment['invalidation_marker'] = 'durable';
    } finally {
      native.close(entry);
    }
  } catch (failedMark) {
    markError = failedMark;
    containment['invalidation_marker_error'] = errorDetail(failedMark);
  }
  try {
    const name = await quarantineEntry(directories, key, 'publication_failure');
    containment['quarantine'] = name === null ? 'already_absent' : 'completed';
  } catch (moveError) {
    containment['quarantine'] = 'failed';
    containment['quarantine_error'] = errorDetail(moveError);
    if (markError !== null && isSystemError(moveError)) {
      return storageFailure(
        moveError,
        `artifact ${key} may or may not be published and could not be taken back`,
        {
          outcome_uncertain: true,
          publication_error: errorDetail(error),
          containment_error: errorDetail(moveError),
        },
      );
    }
  }
  return failure('lifecycle', 'publication_failed', publicationMessage(key, error), {
    details: { containment },
  });
}

/** Removes a staging directory under the key's exclusive lock. Its errors are not worth more than the build's. */
export async function discardStaging(
  domain: Domain,
  directories: DomainDirectories,
  key: string,
  stagingName: string,
): Promise<void> {
  try {
    if (statChild(directories.tmp, stagingName) === null) return;
    requireSameRoot(domain.root, directories);
    const lock = await FileLock.exclusive(join(domain.root, 'locks', artifactLock(key)), { deadline: null });
    try {
      await native.removeTree(directories.tmp, stagingName);
      await native.fsync(directories.tmp);
    } finally {
      lock.release();
    }
  } catch (error) {
    if (!isSystemError(error)) throw error;
  }
}
