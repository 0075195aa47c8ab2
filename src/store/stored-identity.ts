/**
 * What artifacts say they are, read without checking them: for listings, which must also show what is broken.
 * Nothing is locked and nothing is trusted; whoever wants to use an artifact looks it up.
 */
import { native, isSystemError } from '#native';
import { JsonError, type JsonObject, type JsonValue } from './canonical-json.ts';
import { openDirectory, withDirectories, type DomainDirectories } from './directories.ts';
import type { Domain } from './domain.ts';
import { reasonOf } from './faults.ts';
import { ArtifactIdentity, DocumentError } from './identity.ts';
import type { InventoryEntry } from './inventory.ts';
import { manifestSteps, type Manifest } from './manifest.ts';
import { readDocumentInTurns } from './metadata-file.ts';
import { manifestFile } from './paths.ts';
import { inTurns } from './turns.ts';

export interface StoredIdentity {
  readonly identity: ArtifactIdentity | null;
  /** Why there is no identity, or what is wrong with it. */
  readonly problem: string | null;
}

export interface StoredManifest extends StoredIdentity {
  readonly manifest: Manifest | null;
}

const nothing: StoredIdentity = { identity: null, problem: null };

/** The identities of inventory entries, in their order. A deny marker has that of the artifact it denies. */
export async function storedIdentities(
  domain: Domain,
  entries: readonly InventoryEntry[],
): Promise<StoredIdentity[]> {
  return await withDirectories(domain.root, async (directories) => {
    const identities: StoredIdentity[] = [];
    for (const entry of entries) identities.push(await identityOf(directories, entry));
    return identities;
  });
}

/** The manifest of `artifacts/<key>`, or of a quarantine entry by its name. */
export async function storedManifest(
  domain: Domain,
  directory: 'artifacts' | 'quarantine',
  name: string,
): Promise<StoredManifest> {
  return await withDirectories(domain.root, async (directories) => {
    const { document, problem } = await readQuietly(directories[directory], name);
    if (document === null) return { identity: null, manifest: null, problem };
    const found = identityIn(document, name.slice(0, 64));
    try {
      return { ...found, manifest: await inTurns(manifestSteps(document)) };
    } catch (error) {
      return { ...found, manifest: null, problem: problemOf(error) };
    }
  });
}

async function identityOf(
  directories: DomainDirectories,
  { key, state, name }: InventoryEntry,
): Promise<StoredIdentity> {
  if (state === 'temporary') return nothing;
  const place = state === 'quarantined' ? directories.quarantine : directories.artifacts;
  const { document, problem } = await readQuietly(place, state === 'denied' ? key : name);
  if (document !== null) return identityIn(document, key);
  return state === 'denied' ? nothing : { identity: null, problem };
}

async function readQuietly(
  directory: number,
  name: string,
): Promise<{ document: JsonObject | null; problem: string | null }> {
  try {
    const entry = openDirectory(directory, name);
    try {
      return { document: await readDocumentInTurns(entry, manifestFile), problem: null };
    } finally {
      native.close(entry);
    }
  } catch (error) {
    return { document: null, problem: problemOf(error) };
  }
}

function identityIn(document: JsonObject, key: string): StoredIdentity {
  try {
    const identity = ArtifactIdentity.of(document['identity'] as JsonValue);
    const problem = identity.key === key ? null : `it holds the identity of artifact ${identity.key}`;
    return { identity, problem };
  } catch (error) {
    return { identity: null, problem: problemOf(error) };
  }
}

function problemOf(error: unknown): string {
  if (isSystemError(error)) return reasonOf(error);
  if (error instanceof DocumentError || error instanceof JsonError) return error.message;
  throw error;
}
