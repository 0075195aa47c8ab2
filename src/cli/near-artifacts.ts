/** The nearest artifacts to an identity that misses, and which fields differ: as text and as a document. */
import type { FieldDifference, NearArtifact } from '../host/nearest.ts';
import { canonicalJson, type JsonValue } from '../store/canonical-json.ts';
import { count, shortKey } from './documents.ts';
import type { JsonDocument } from './json-document.ts';
import { fields } from './table.ts';

export function nearDocument(near: readonly NearArtifact[]): readonly JsonDocument[] {
  return near.map(({ key, state, name, differences }) => ({
    key,
    state,
    name,
    differences: differences.map(({ field, wanted, stored }) => ({
      field,
      wanted: wanted ?? null,
      stored: stored ?? null,
    })),
  }));
}

export function nearText(near: readonly NearArtifact[]): string {
  if (near.length === 0) return 'The store has no other artifact to compare with.';
  return ['Nearest artifacts, and the fields in which they differ:', ...near.map(oneText)].join('\n');
}

function oneText({ key, state, differences }: NearArtifact): string {
  if (differences.length === 0) return `  ${shortKey(key)} (${state}): the same identity`;
  const title = `  ${shortKey(key)} (${state}): ${count(differences.length, 'field differs', 'fields differ')}`;
  return `${title}\n${fields(differences.map(differenceLine), '    ')}`;
}

function differenceLine({ field, wanted, stored }: FieldDifference): readonly [string, string] {
  return [field, `asked for ${shown(wanted)}, stored ${shown(stored)}`];
}

const longest = 80;

function shown(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  const text = canonicalJson(value);
  return text.length > longest ? `${text.slice(0, longest)}...` : text;
}
