/**
 * Which published artifacts have a newer one of their kind: same model, component, representation, layout,
 * adaptation and producer, at another revision or made by another version of the producer. Two artifacts that
 * agree in both (other files under the same name of a revision) do not supersede each other.
 *
 * Newer is what was published later. Each tensor parallel rank has a line of its own, its layout being another.
 */
import { canonicalJson } from '../store/canonical-json.ts';
import type { ArtifactIdentity } from '../store/identity.ts';

export interface Published {
  readonly key: string;
  readonly identity: ArtifactIdentity;
  readonly publishedNs: bigint;
}

export interface Superseded {
  readonly key: string;
  /** The newest artifact of each release that stays, the newest first: what the removal rests on. */
  readonly newer: readonly Published[];
}

/** `keepLatest` releases of each line stay; at least 1. */
export function supersededIn(artifacts: readonly Published[], keepLatest: number): Superseded[] {
  return [...Map.groupBy(artifacts, lineOf).values()].flatMap((line) => supersededInLine(line, keepLatest));
}

function supersededInLine(line: readonly Published[], keepLatest: number): Superseded[] {
  const releases = [...Map.groupBy(line, releaseOf).values()].map((release) => release.toSorted(byNewest));
  releases.sort((a, b) => byNewest(a[0] as Published, b[0] as Published));
  const newer = releases.slice(0, keepLatest).map((release) => release[0] as Published);
  return releases.slice(keepLatest).flatMap((release) => release.map(({ key }) => ({ key, newer })));
}

/** Of two published in the same instant the key decides, so that the answer is always the same. */
function byNewest(a: Published, b: Published): number {
  if (a.publishedNs !== b.publishedNs) return a.publishedNs > b.publishedNs ? -1 : 1;
  return a.key < b.key ? -1 : 1;
}

function lineOf({ identity: { document } }: Published): string {
  const { source, component, representation, layout, adaptation, producer } = document;
  return canonicalJson({
    model: source.model_id,
    component,
    representation,
    layout,
    adaptation,
    producer: producer.producer_id,
  });
}

function releaseOf({ identity: { document } }: Published): string {
  const { source, producer } = document;
  return canonicalJson([source.revision, producer.version, producer.implementation_fingerprint]);
}
