/**
 * One JSON document on one line. Numbers keep what they are: big integers are written exactly and a float
 * that is whole stays a float, so that an identity printed here has the key that it had in the store.
 */
import { canonicalJson, JsonFloat } from '../store/canonical-json.ts';
import { printable } from './printable.ts';

/** What a command prints with --json: anything that JSON.stringify takes, bigint and JsonFloat besides. */
export type JsonDocument = Readonly<Record<string, unknown>>;

const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown };

export function encodeDocument(document: JsonDocument): string {
  const text = JSON.stringify(document, (_key, value: unknown) => {
    if (typeof value === 'bigint') return rawJSON(value.toString());
    return value instanceof JsonFloat ? rawJSON(canonicalJson(value)) : value;
  });
  return text.replace(/[\x7f-\uffff]/g, escapeUnprintable);
}

/** JSON.stringify leaves some characters that a terminal acts on as they are; JSON has only this way to write them. */
function escapeUnprintable(character: string): string {
  if (/[\ud800-\udfff]/.test(character) || printable(character) === character) return character;
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
