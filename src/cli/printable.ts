/**
 * Text from disk on its way to a terminal: names and messages can hold control characters that would move
 * the cursor, change colours or hide what is there, so these are shown as escapes.
 */

/** C0 and C1 controls, DEL, line separators, marks that reorder text, and lone surrogates (names that are not UTF-8). */
const unprintable =
  // eslint-disable-next-line no-control-regex -- control characters are what this is about
  /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** One field: line breaks are escaped too. */
export function printable(text: string): string {
  return text.replace(unprintable, escape);
}

/** Text that we laid out ourselves: line breaks stay. */
export function printableLines(text: string): string {
  return text.replace(unprintable, (character) => (character === '\n' ? character : escape(character)));
}

function escape(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, '0')}`
    : `\\u${code.toString(16).padStart(4, '0')}`;
}
