/**
 * One artifact in full: identity, files, tensors. Read as it is and not checked; the last few manifests are
 * kept under their entry's signature, so that scrolling through tensors parses once.
 */
import { join } from 'node:path';
import type { Artifact, TensorRow, TensorsPage, tensorsRequest } from '../contract/artifact-schemas.ts';
import { FailureError } from '../contract/failure.ts';
import { canonicalJson, type JsonValue } from '../store/canonical-json.ts';
import type { ArtifactIdentity } from '../store/identity.ts';
import { namedLockStates } from '../store/lock-holders.ts';
import type { Manifest, TensorEntry } from '../store/manifest.ts';
import { artifactLock, buildLock } from '../store/paths.ts';
import { eachInTurn } from '../store/turns.ts';
import type { z } from 'zod';
import { heldLocks } from './held-locks.ts';
import { identityFields } from './identity-fields.ts';
import { indentedJson } from './indented-json.ts';
import { withoutTorch } from '../catalog/entry-facts.ts';
import type { SnapshotRow } from './store-snapshot.ts';
import { storedManifest, type StoredManifest } from '../store/stored-identity.ts';
import { missingArtifact } from './stores.ts';
import type { OnlineLook, WatchedStore } from './watched-store.ts';

type TensorsQuestion = z.output<typeof tensorsRequest>;

const keptManifests = 4;

export class ArtifactReader {
  readonly #manifests = new Map<string, StoredManifest>();

  /** Throws FailureError where the store has nothing under the key. */
  async show(store: WatchedStore, key: string): Promise<Artifact> {
    const look = await store.online();
    const { stored } = await this.#read(look, key);
    const { identity, manifest, problem } = stored;
    const locks = await namedLockStates(store.root, [buildLock(key), artifactLock(key)]);
    return {
      key,
      path: join(store.root, 'artifacts', key),
      entries: look.snapshot.rows.filter((row) => row.key === key).map(store.shownRow),
      identity: identity === null ? null : shownIdentity(identity),
      contents: manifest === null ? null : await contentsOf(manifest),
      problem,
      locks: heldLocks(locks, store.sightings),
    };
  }

  /** Throws FailureError where there is no artifact, or none with a manifest that can be read. */
  async tensors(store: WatchedStore, question: TensorsQuestion): Promise<TensorsPage> {
    const { key, offset, limit } = question;
    const { stored } = await this.#read(await store.online(), key);
    if (stored.manifest === null) {
      throw new FailureError(
        missingArtifact(key, `the manifest of ${key} cannot be read: ${stored.problem ?? 'there is none'}`),
      );
    }
    const { tensors } = stored.manifest;
    const isWanted = await eachInTurn(tensors, matcher(question));
    const matching = sortedTensors(
      tensors.filter((_tensor, index) => isWanted[index]),
      question,
    );
    return {
      total: matching.length,
      totalBytes: matching.reduce((total, { nbytes }) => total + nbytes, 0),
      offset,
      rows: matching.slice(offset, offset + limit).map(tensorRow),
    };
  }

  /** Of what is published, else of what is in quarantine. */
  async #read(look: OnlineLook, key: string): Promise<{ stored: StoredManifest }> {
    const rows = look.snapshot.rows.filter((row) => row.key === key);
    if (rows.length === 0) {
      throw new FailureError(missingArtifact(key, `${look.domain.root} has nothing under the key ${key}`));
    }
    const row =
      rows.find(({ state }) => state === 'ready') ?? rows.find(({ state }) => state === 'quarantined');
    if (row === undefined) return { stored: { identity: null, manifest: null, problem: null } };
    return { stored: await this.#manifest(look, row) };
  }

  async #manifest({ domain, snapshot }: OnlineLook, row: SnapshotRow): Promise<StoredManifest> {
    const signature = `${domain.uuid} ${snapshot.usage.measuredAtMs} ${row.id}`;
    const known = this.#manifests.get(signature);
    if (known !== undefined) return known;
    const directory = row.state === 'ready' ? 'artifacts' : 'quarantine';
    const stored = await storedManifest(domain, directory, row.name);
    this.#manifests.set(signature, stored);
    const [oldest] = this.#manifests.keys();
    if (this.#manifests.size > keptManifests && oldest !== undefined) this.#manifests.delete(oldest);
    return stored;
  }
}

function shownIdentity(identity: ArtifactIdentity): NonNullable<Artifact['identity']> {
  const fields = [...identityFields(identity.document)].map(([path, value]) => ({
    path,
    value: typeof value === 'string' ? value : canonicalJson(value),
  }));
  return { fields, document: indentedJson(identity.document as unknown as JsonValue) };
}

async function contentsOf(manifest: Manifest): Promise<NonNullable<Artifact['contents']>> {
  const { contentSha256, producerSchema, restorerSchema, formatMetadata, files, tensors } = manifest;
  return {
    contentSha256,
    producerSchema,
    restorerSchema,
    formatMetadata: indentedJson(formatMetadata),
    files: files.map(({ file_name: name, size, sha256 }) => ({ name, bytes: size, sha256 })),
    tensors: tensors.length,
    tensorBytes: tensors.reduce((total, { nbytes }) => total + nbytes, 0),
    bytesByDtype: (await shares(tensors, ({ dtype }) => withoutTorch(dtype))).sort(
      (a, b) => b.bytes - a.bytes,
    ),
    bytesByLayer: (await shares(tensors, layerOf)).sort(byLayer),
  };
}

interface Share {
  readonly name: string;
  readonly tensors: number;
  readonly bytes: number;
}

async function shares(
  tensors: readonly TensorEntry[],
  nameOf: (tensor: TensorEntry) => string,
): Promise<Share[]> {
  const sums = new Map<string, { tensors: number; bytes: number }>();
  await eachInTurn(tensors, (tensor) => {
    const name = nameOf(tensor);
    const { tensors: count, bytes } = sums.get(name) ?? { tensors: 0, bytes: 0 };
    sums.set(name, { tensors: count + 1, bytes: bytes + tensor.nbytes });
  });
  return [...sums].map(([name, sum]) => ({ name, ...sum }));
}

const noLayer = 'outside the layers';

/** `model.layers.12.mlp.weight` -> `model.layers.12`: up to the first number. */
function layerOf({ name }: TensorEntry): string {
  return /^(?:.*?\.)?\d+(?=\.|$)/.exec(name)?.[0] ?? noLayer;
}

const numerical = new Intl.Collator('en', { numeric: true });

function byLayer(a: Share, b: Share): number {
  if (a.name === noLayer || b.name === noLayer)
    return Number(a.name === noLayer) - Number(b.name === noLayer);
  return numerical.compare(a.name, b.name);
}

function matcher({ search }: TensorsQuestion): (tensor: TensorEntry) => boolean {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  if (words.length === 0) return () => true;
  return ({ name, dtype, file_name: file }) => {
    const text = `${name}\n${withoutTorch(dtype)}\n${file}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

function sortedTensors(
  tensors: readonly TensorEntry[],
  { sort, descending }: TensorsQuestion,
): readonly TensorEntry[] {
  const valueOf = {
    name: null,
    dtype: ({ dtype }: TensorEntry) => dtype,
    bytes: ({ nbytes }: TensorEntry) => nbytes,
    file: ({ file_name: file }: TensorEntry) => file,
  }[sort];
  // A manifest lists its tensors by name.
  if (valueOf === null) return descending ? tensors.toReversed() : tensors;
  const sign = descending ? -1 : 1;
  return tensors.toSorted((a, b) => {
    const [left, right] = [valueOf(a), valueOf(b)];
    return left === right ? 0 : left < right ? -sign : sign;
  });
}

function tensorRow(tensor: TensorEntry): TensorRow {
  const { name, kind, role, dtype, shape, nbytes, file_name: fileName, sha256 } = tensor;
  return { name, kind, role, dtype: withoutTorch(dtype), shape, bytes: nbytes, fileName, sha256 };
}
