/**
 * Why a key misses: the artifacts of the store that come closest to what was asked for, and exactly which
 * fields of their identities differ. After an upgrade it is usually one version or fingerprint.
 */
import { canonicalJson, type JsonValue } from '../store/canonical-json.ts';
import type { Domain } from '../store/domain.ts';
import type { ArtifactIdentity, IdentityDocument } from '../store/identity.ts';
import { inventory, type EntryState } from '../store/inventory.ts';
import { identityFields } from './identity-fields.ts';
import { storedIdentities } from '../store/stored-identity.ts';

export interface FieldDifference {
  /** As a path into the identity: `source.revision`. */
  readonly field: string;
  /** Undefined: the side does not have the field. */
  readonly wanted: JsonValue | undefined;
  readonly stored: JsonValue | undefined;
}

export interface NearArtifact {
  readonly key: string;
  readonly state: EntryState;
  readonly name: string;
  readonly differences: readonly FieldDifference[];
}

/** The closest ones first: fewest differing fields, ready before anything else. */
export async function nearestArtifacts(
  domain: Domain,
  wanted: ArtifactIdentity,
  atMost = 3,
): Promise<NearArtifact[]> {
  const listed = (await inventory(domain)).entries.filter(
    ({ state }) => state === 'ready' || state === 'quarantined',
  );
  const identities = await storedIdentities(domain, listed);
  const near = listed.flatMap(({ key, state, name }, index): NearArtifact[] => {
    const identity = identities[index]?.identity;
    if (identity === null || identity === undefined || (state === 'ready' && key === wanted.key)) return [];
    return [{ key, state, name, differences: differences(wanted.document, identity.document) }];
  });
  return near.sort(closestFirst).slice(0, atMost);
}

function closestFirst(a: NearArtifact, b: NearArtifact): number {
  const rank = (artifact: NearArtifact): number => (artifact.state === 'ready' ? 0 : 1);
  return a.differences.length - b.differences.length || rank(a) - rank(b) || (a.name < b.name ? -1 : 1);
}

export function differences(wanted: IdentityDocument, stored: IdentityDocument): FieldDifference[] {
  const left = identityFields(wanted);
  const right = identityFields(stored);
  return [...new Set([...left.keys(), ...right.keys()])].flatMap((field): FieldDifference[] => {
    const sides = { wanted: left.get(field), stored: right.get(field) };
    const told = same(sides.wanted, sides.stored) || isFilled(field, left) || isFilled(field, right);
    return told ? [] : [{ field, ...sides }];
  });
}

/** An empty object on the other side, whose fields on this side are listed one by one. */
function isFilled(field: string, fields: ReadonlyMap<string, JsonValue>): boolean {
  return !fields.has(field) && [...fields.keys()].some((other) => other.startsWith(`${field}.`));
}

function same(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return canonicalJson(a) === canonicalJson(b);
}
