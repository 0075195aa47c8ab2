/**
 * Putting a quarantined entry back into service. Only where its key is free, and only what verifies at the full
 * level now, whatever it was quarantined for; never out of an identity collision, whose bytes are another
 * artifact's than the one that was published.
 *
 * The build lock is held throughout, so that nobody builds or cleans the key meanwhile; readers are kept out for
 * the move alone. A crash leaves the entry in quarantine, or, within the move, marked and not served: then the
 * next build of the key makes it anew.
 * Source: host-weight store specification, sections 2, 5 and 6.
 */
import { native, newProgress, type Progress, type Stat } from '#native';
import { failure, FailureError, outcomeOf, type Outcome } from '../contract/failure.ts';
import {
  childExists,
  openDirectory,
  requireSameRoot,
  statChild,
  type DomainDirectories,
} from './directories.ts';
import type { Domain } from './domain.ts';
import type { ArtifactIdentity } from './identity.ts';
import { underArtifactLock, underBuildLock } from './key-locks.ts';
import { classify } from './lookup.ts';
import { manifestSteps } from './manifest.ts';
import { isDirectory, readDocumentInTurns } from './metadata-file.ts';
import { finishInterruptedMoves, moveEntry, removeDenyMarker } from './move.ts';
import { denyFile, isBasename, keyOfName, manifestFile, modes, quarantineReason } from './paths.ts';
import { inTurns } from './turns.ts';
import { validateEntry } from './validation.ts';

export interface Restoration {
  readonly key: string;
  /** Sum of the payloads' sizes. */
  readonly payloadBytes: number;
}

export interface RestoreOptions {
  readonly signal?: AbortSignal | undefined;
  /** Counts hashed bytes. */
  readonly progress?: Progress | undefined;
}

/** The entry by its basename in `quarantine/`. Throws the signal's reason when it fires during the check. */
export function restoreQuarantined(
  domain: Domain,
  name: string,
  { signal, progress = newProgress() }: RestoreOptions = {},
): Promise<Outcome<Restoration>> {
  return outcomeOf(async () => {
    const key = restorableKey(name);
    return await underBuildLock(domain, key, 'restored', async (directories) => {
      requireSameRoot(domain.root, directories);
      const before = requireEntry(directories, key, name);
      if ((before.mode & modes.invalidated) !== 0) {
        await underArtifactLock(domain, key, async () => await finishInterruptedMoves(directories, key));
      }
      const seen = requireEntry(directories, key, name);
      const payloadBytes = await verified(domain, directories, key, name, { signal, progress });
      await underArtifactLock(domain, key, async () => {
        requireSameRoot(domain.root, directories);
        requireUnchanged(seen, requireEntry(directories, key, name), name);
        // Without an artifact it stands against nothing; after the move it would deny what was just verified.
        await removeDenyMarker(directories, denyFile(key));
        const { quarantine, artifacts } = directories;
        await moveEntry({ directory: quarantine, name }, { directory: artifacts, name: key });
      });
      return { key, payloadBytes };
    });
  });
}

function restorableKey(name: string): string {
  const key = keyOfName(name);
  if (key === null || !isBasename(name) || !name.startsWith(`${key}.`)) {
    throw new FailureError(
      failure(
        'configuration',
        'invalid_config',
        `${JSON.stringify(name)} is not the name of a quarantined entry (they start with 64 hex digits and a dot)`,
      ),
    );
  }
  if (quarantineReason(name) === 'identity-collision') {
    throw new FailureError(
      failure(
        'lifecycle',
        'identity_collision',
        `quarantine/${name} is kept because the same identity was produced with other content. Which of the two is right can't be told from it, so it is not restored: build the artifact again.`,
      ),
    );
  }
  return key;
}

function requireEntry({ artifacts, quarantine }: DomainDirectories, key: string, name: string): Stat {
  const stat = statChild(quarantine, name);
  if (stat === null) {
    throw new FailureError(
      failure('lookup', 'local_miss', `there is no quarantine/${name}`, { details: { key } }),
    );
  }
  if (!isDirectory(stat)) {
    throw new FailureError(
      failure(
        'lifecycle',
        'quarantine_failed',
        `quarantine/${name} is not a directory, so it is not an entry that was put there by the store`,
      ),
    );
  }
  if (childExists(artifacts, key)) {
    throw new FailureError(
      failure(
        'lifecycle',
        'publication_failed',
        `artifact ${key} is there already, so quarantine/${name} was left where it is. Remove the artifact first if this one is to take its place.`,
      ),
    );
  }
  return stat;
}

/** At the full level and durable. Throws FailureError with what is wrong with it; resolves with its bytes. */
async function verified(
  domain: Domain,
  { quarantine }: DomainDirectories,
  key: string,
  name: string,
  { signal, progress }: { readonly signal: AbortSignal | undefined; readonly progress: Progress },
): Promise<number> {
  const stopHashing = (): void => void Atomics.store(progress, 1, 1n);
  signal?.throwIfAborted();
  signal?.addEventListener('abort', stopHashing);
  try {
    const identity = await identityOf(quarantine, key, name);
    const options = { level: 'full_checksum', progress, name } as const;
    const { payloads } = await validateEntry(domain, quarantine, identity, options);
    try {
      for (const { fd } of payloads) await native.fsync(fd);
      return payloads.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
    } finally {
      for (const { fd } of payloads) native.close(fd);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw new FailureError(classify(error, key).failure);
  } finally {
    signal?.removeEventListener('abort', stopHashing);
  }
}

async function identityOf(quarantine: number, key: string, name: string): Promise<ArtifactIdentity> {
  const entry = openDirectory(quarantine, name);
  try {
    const { identity } = await inTurns(manifestSteps(await readDocumentInTurns(entry, manifestFile)));
    if (identity.key === key) return identity;
    throw new FailureError(
      failure('validation', 'manifest_incompatible', `it holds the identity of ${identity.key}`),
    );
  } finally {
    native.close(entry);
  }
}

function requireUnchanged(before: Stat, now: Stat, name: string): void {
  const isSame =
    before.dev === now.dev &&
    before.ino === now.ino &&
    before.mtimeNs === now.mtimeNs &&
    before.ctimeNs === now.ctimeNs;
  if (isSame) return;
  throw new FailureError(
    failure('lifecycle', 'quarantine_failed', `quarantine/${name} changed while it was verified`, {
      retryable: true,
    }),
  );
}
