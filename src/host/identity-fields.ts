/** An identity as a list of fields by their paths, in the order in which the format describes them. */
import { isJsonObject, type JsonObject, type JsonValue } from '../store/canonical-json.ts';
import type { IdentityDocument } from '../store/identity.ts';

const sections = [
  'schema_version',
  'source',
  'component',
  'representation',
  'layout',
  'adaptation',
  'producer',
] as const;

/** `source.revision` -> value. Metadata is taken apart by its keys; an empty object is a value. */
export function identityFields(document: IdentityDocument): Map<string, JsonValue> {
  const fields = new Map<string, JsonValue>();
  for (const section of sections) flatten((document as unknown as JsonObject)[section], section, fields);
  return fields;
}

function flatten(value: JsonValue | undefined, path: string, into: Map<string, JsonValue>): void {
  if (value === undefined) return;
  if (!isJsonObject(value) || Object.keys(value).length === 0) {
    into.set(path, value);
    return;
  }
  for (const [key, child] of Object.entries(value)) flatten(child, `${path}.${key}`, into);
}
