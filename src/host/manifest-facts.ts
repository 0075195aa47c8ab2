/**
 * What the manifests of a store say its entries are, for listings: read once per entry and kept in memory
 * under the entry's signature (device, inode, size and times), so that a second look at ten thousand artifacts
 * reads only what is new.
 *
 * The identity stands before the tensors in a manifest as every writer writes it, so the file's beginning is
 * enough: an identity whose digest is the entry's key needs no other proof. Anything else is read in full.
 */
import { constants } from 'node:fs';
import { native, isSystemError } from '#native';
import { JsonError } from '../store/canonical-json.ts';
import { openDirectory, withDirectories, type DomainDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import { ArtifactIdentity, DocumentError, type IdentityDocument } from '../store/identity.ts';
import type { InventoryEntry } from '../store/inventory.ts';
import { manifestFile } from '../store/paths.ts';
import { pause } from '../store/turns.ts';
import { storedIdentities } from './stored-identity.ts';

export interface ManifestFacts {
  readonly model: string | null;
  readonly modelRevision: string | null;
  readonly component: string | null;
  readonly representation: string | null;
  /** Without torch's prefix. */
  readonly dtype: string | null;
  readonly layout: string | null;
  readonly tensorParallelSize: number | null;
  readonly tensorParallelRank: number | null;
  readonly producer: string | null;
  readonly problem: string | null;
}

export const noFacts: ManifestFacts = {
  model: null,
  modelRevision: null,
  component: null,
  representation: null,
  dtype: null,
  layout: null,
  tensorParallelSize: null,
  tensorParallelRank: null,
  producer: null,
  problem: null,
};

export function signatureOf({ state, name, bytes, stat }: InventoryEntry): string {
  return `${state}/${name} ${stat.dev}:${stat.ino}:${stat.mode} ${bytes} ${stat.mtimeNs} ${stat.ctimeNs}`;
}

export class ManifestFactsCache {
  #facts = new Map<string, ManifestFacts>();

  /** By entry with its signature, in their order. What is no longer listed is forgotten. */
  async of(
    domain: Domain,
    entries: readonly InventoryEntry[],
    signatures: readonly string[],
  ): Promise<ManifestFacts[]> {
    const kept = new Map<string, ManifestFacts>();
    const ofPublished = new Map<string, ManifestFacts>();
    const all = await withDirectories(domain.root, async (directories) => {
      const facts: ManifestFacts[] = [];
      for (const [index, entry] of entries.entries()) {
        await pause();
        const signature = signatures[index] as string;
        const found = this.#facts.get(signature) ?? (await this.#read(domain, directories, entry));
        kept.set(signature, found);
        if (entry.state === 'ready') ofPublished.set(entry.key, found);
        facts.push(found);
      }
      return facts;
    });
    this.#facts = kept;
    // A deny marker says nothing itself: it stands against the artifact with its key.
    return all.map((facts, index) => {
      const entry = entries[index] as InventoryEntry;
      return entry.state === 'denied' ? (ofPublished.get(entry.key) ?? noFacts) : facts;
    });
  }

  async #read(domain: Domain, directories: DomainDirectories, entry: InventoryEntry): Promise<ManifestFacts> {
    if (entry.state === 'denied' || entry.state === 'temporary') return noFacts;
    return quickFacts(directories, entry) ?? (await thoroughFacts(domain, entry));
  }
}

const headBytes = 64 * 1024;
const head = Buffer.alloc(headBytes);

/** Null where the beginning of the manifest does not prove what the entry is. */
function quickFacts(
  directories: DomainDirectories,
  { state, name, key }: InventoryEntry,
): ManifestFacts | null {
  try {
    const place = state === 'quarantined' ? directories.quarantine : directories.artifacts;
    const text = identityText(readHead(place, name));
    if (text === null) return null;
    const identity = ArtifactIdentity.parse(Buffer.from(text, 'latin1'));
    return identity.key === key ? factsOf(identity.document, null) : null;
  } catch (error) {
    if (isSystemError(error) || error instanceof DocumentError || error instanceof JsonError) return null;
    throw error;
  }
}

function readHead(place: number, name: string): string {
  const entry = openDirectory(place, name);
  try {
    const file = native.openat(entry, manifestFile, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return head.toString('latin1', 0, native.preadSync(file, head, 0));
    } finally {
      native.close(file);
    }
  } finally {
    native.close(entry);
  }
}

/** The object behind the first `"identity":` that is whole. What it is worth is its digest's to say. */
function identityText(text: string): string | null {
  const mark = '"identity":{';
  const start = text.indexOf(mark);
  if (start < 0) return null;
  let depth = 0;
  let isInString = false;
  for (let at = start + mark.length - 1; at < text.length; at += 1) {
    const character = text[at];
    if (isInString) {
      if (character === '\\') at += 1;
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === '{') depth += 1;
    else if (character === '}') {
      depth -= 1;
      if (depth === 0) return text.slice(start + mark.length - 1, at + 1);
    }
  }
  return null;
}

async function thoroughFacts(domain: Domain, entry: InventoryEntry): Promise<ManifestFacts> {
  const [stored] = await storedIdentities(domain, [entry]);
  const { identity, problem } = stored ?? { identity: null, problem: null };
  return identity === null ? { ...noFacts, problem } : factsOf(identity.document, problem);
}

function factsOf(document: IdentityDocument, problem: string | null): ManifestFacts {
  const { source, component, representation, layout, producer } = document;
  return {
    model: source.model_id,
    modelRevision: source.revision,
    component: component.name,
    representation: representation.name,
    dtype: withoutTorch(representation.dtype),
    layout: layout.name,
    tensorParallelSize: safeInteger(layout.tensor_parallel_size),
    tensorParallelRank: safeInteger(layout.tensor_parallel_rank),
    producer: producer.producer_id,
    problem,
  };
}

export function withoutTorch(dtype: string): string {
  return dtype.replace(/^torch\./, '');
}

/** Larger ones are not sizes of anything; they stay in the identity as it is shown in full. */
function safeInteger(value: number | bigint): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : null;
}
