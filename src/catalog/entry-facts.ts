/** What an entry's manifest says: who it is, for listings, and its tensors, for searching. Read as it is, not checked. */
import { createHash } from 'node:crypto';
import type { Domain } from '../store/domain.ts';
import type { IdentityDocument } from '../store/identity.ts';
import type { InventoryEntry } from '../store/inventory.ts';
import type { TensorEntry } from '../store/manifest.ts';
import { storedManifest } from '../store/stored-identity.ts';

export interface EntryFacts {
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
  /** Why the manifest says nothing, or what is wrong with it. */
  readonly problem: string | null;
}

export const noFacts: EntryFacts = {
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

/** The tensors of a manifest without their digests; equal ones have equal digests here. */
export interface Structure {
  readonly digest: string;
  readonly tensors: readonly StructureTensor[];
}

export interface StructureTensor {
  readonly name: string;
  /** Without torch's prefix. */
  readonly dtype: string;
  /** `4096x1024`; empty for a scalar. */
  readonly shape: string;
  readonly bytes: number;
}

export interface ReadEntry {
  readonly facts: EntryFacts;
  /** Of the artifact's contents, as its manifest states it. */
  readonly contentSha256: string | null;
  readonly structure: Structure | null;
}

const nothingRead: ReadEntry = { facts: noFacts, contentSha256: null, structure: null };

/** Only published and quarantined entries have a manifest that means something. Throws a SystemError of the store itself. */
export async function readEntry(domain: Domain, { state, name }: InventoryEntry): Promise<ReadEntry> {
  if (state === 'denied' || state === 'temporary') return nothingRead;
  const directory = state === 'ready' ? 'artifacts' : 'quarantine';
  const { identity, manifest, problem } = await storedManifest(domain, directory, name);
  return {
    facts: identity === null ? { ...noFacts, problem } : factsOf(identity.document, problem),
    contentSha256: manifest?.contentSha256 ?? null,
    structure: manifest === null ? null : structureOf(manifest.tensors),
  };
}

function structureOf(entries: readonly TensorEntry[]): Structure {
  const tensors = entries.map(({ name, dtype, shape, nbytes }) => ({
    name,
    dtype: withoutTorch(dtype),
    shape: shape.join('x'),
    bytes: nbytes,
  }));
  return { digest: createHash('sha256').update(JSON.stringify(tensors)).digest('hex'), tensors };
}

function factsOf(document: IdentityDocument, problem: string | null): EntryFacts {
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
