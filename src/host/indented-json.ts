/** JSON for reading: two spaces a level, numbers exactly as the document has them. */
import { canonicalJson, isJsonObject, type JsonValue } from '../store/canonical-json.ts';

export function indentedJson(value: JsonValue, indent = ''): string {
  const deeper = `${indent}  `;
  if (Array.isArray(value)) {
    const items = (value as readonly JsonValue[]).map((item) => deeper + indentedJson(item, deeper));
    return items.length === 0 ? '[]' : `[\n${items.join(',\n')}\n${indent}]`;
  }
  if (!isJsonObject(value)) return canonicalJson(value);
  const entries = Object.entries(value).map(
    ([key, child]) => `${deeper}${JSON.stringify(key)}: ${indentedJson(child, deeper)}`,
  );
  return entries.length === 0 ? '{}' : `{\n${entries.join(',\n')}\n${indent}}`;
}
