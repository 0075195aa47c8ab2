/**
 * Canonical JSON, byte for byte what the Python workers' `json.dumps(value, sort_keys=True,
 * separators=(",", ":"), ensure_ascii=True, allow_nan=False)` writes: artifact keys and digests are over it.
 *
 * JavaScript's own JSON cannot do this: it loses the difference between 1 and 1.0, rounds big integers and
 * sorts by UTF-16 unit. So values are read by a parser of our own (json-parser.ts), into
 *   - number for an integer that is safe, or for a float that is not integral,
 *   - bigint for any other integer,
 *   - JsonFloat for a float whose value is integral (1.0, -0.0, 1e22),
 *   - plain objects, on which `__proto__` is an own key like any other.
 *
 * Source: host-weight store specification, section 3; CPython's json and float repr.
 */

/** A float whose value is integral. It keeps being a float when it is written again. */
export class JsonFloat {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

export type JsonValue =
  null | boolean | number | bigint | string | JsonFloat | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** The text is not JSON, or is JSON that has no canonical form. `offset` is in characters. */
export class JsonError extends Error {
  readonly offset: number | null;

  constructor(message: string, offset: number | null = null) {
    super(offset === null ? message : `${message} at character ${offset}`);
    this.name = 'JsonError';
    this.offset = offset;
  }
}

/** Longer integers make CPython refuse the document. */
export const maxIntegerDigits = 4300;
/** CPython's recursion limit ends deeper documents; a fixed bound does the same without a crash. */
export const maxDepth = 900;

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonFloat)
  );
}

function isJsonList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function isInteger(value: JsonValue | undefined): value is number | bigint {
  return typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value));
}

export function canonicalJson(value: JsonValue): string {
  return write(value, 0);
}

/** The canonical text is ASCII, so this is also its length in characters. */
export function canonicalBytes(value: JsonValue): Buffer {
  return Buffer.from(canonicalJson(value), 'latin1');
}

const chunkCharacters = 64 * 1024;

/**
 * Joins pieces of canonical text into chunks of bytes. A document with an entry for each of a hundred thousand
 * tensors is written and digested like this: as one text it would be needed several times over.
 */
export function* asciiChunks(pieces: Iterable<string>): Iterable<Buffer> {
  let pending = '';
  for (const piece of pieces) {
    pending += piece;
    if (pending.length < chunkCharacters) continue;
    yield Buffer.from(pending, 'latin1');
    pending = '';
  }
  yield Buffer.from(pending, 'latin1');
}

/** Orders strings by Unicode code point, as Python sorts them; a lone surrogate is a code point of its own. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const left = a.charCodeAt(index);
    const right = b.charCodeAt(index);
    if (left === right) continue;
    if (left < 0xd800 && right < 0xd800) return left - right;
    // The shared unit before may be the first half of a pair on one side and stand alone on the other.
    const before = index > 0 ? a.charCodeAt(index - 1) : 0;
    const start = before >= 0xd800 && before < 0xdc00 ? index - 1 : index;
    const order = codePoint(a, start) - codePoint(b, start);
    return order !== 0 ? order : codePoint(a, index) - codePoint(b, index);
  }
  return a.length - b.length;
}

function codePoint(text: string, index: number): number {
  return text.codePointAt(index) as number;
}

/** Python's `==` on parsed JSON: numbers compare by value whatever their kind, booleans count as 0 and 1. */
export function equalAsPython(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  const left = numeric(a);
  const right = numeric(b);
  // Ordering compares a bigint and a number by value and exactly; strict equality would not.
  if (left !== null && right !== null) return !(left < right) && !(left > right);
  if (isJsonList(a) && isJsonList(b)) {
    return a.length === b.length && a.every((item, index) => equalAsPython(item, b[index]));
  }
  if (isJsonObject(a) && isJsonObject(b)) {
    const keys = Object.keys(a);
    return (
      keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && equalAsPython(a[key], b[key]))
    );
  }
  return a === b;
}

function numeric(value: JsonValue | undefined): number | bigint | null {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  return value instanceof JsonFloat ? value.value : null;
}

function write(value: JsonValue, depth: number): string {
  if (depth > maxDepth) throw new JsonError('nested too deeply');
  switch (typeof value) {
    case 'string':
      return quoted(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      return integerText(value);
    case 'number':
      if (Number.isSafeInteger(value)) return String(value === 0 ? 0 : value);
      if (Number.isInteger(value))
        throw new JsonError(`${value} is past the safe integers: give a bigint or a JsonFloat`);
      return floatText(value);
    default:
      return writeNested(value, depth);
  }
}

function writeNested(value: Exclude<JsonValue, string | boolean | bigint | number>, depth: number): string {
  if (value === null) return 'null';
  if (value instanceof JsonFloat) return floatText(value.value);
  if (isJsonList(value)) return `[${value.map((item) => write(item, depth + 1)).join(',')}]`;
  let text = '{';
  for (const key of sortedKeys(value)) {
    text += `${text.length === 1 ? '' : ','}${quoted(key)}:${write(value[key] as JsonValue, depth + 1)}`;
  }
  return `${text}}`;
}

function integerText(value: bigint): string {
  const text = value.toString();
  if (text.length - (value < 0n ? 1 : 0) > maxIntegerDigits) {
    throw new JsonError(`an integer has more than ${maxIntegerDigits} digits`);
  }
  return text;
}

/** Documents that were read are mostly sorted already, and finding that out is cheaper than sorting. */
function sortedKeys(object: JsonObject): string[] {
  const keys = Object.keys(object);
  for (let index = 1; index < keys.length; index += 1) {
    if (compareCodePoints(keys[index - 1] as string, keys[index] as string) > 0)
      return keys.sort(compareCodePoints);
  }
  return keys;
}

/** Python's repr of a float: the shortest digits that read back, exponent form below 1e-4 and from 1e16 on. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) throw new JsonError(`${value} has no canonical form`);
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const sign = value < 0 ? '-' : '';
  const [mantissa, exponentText] = Math.abs(value).toExponential().split('e') as [string, string];
  const digits = mantissa.replace('.', '');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    const magnitude = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${digits[0]}${fraction}e${exponent < 0 ? '-' : '+'}${magnitude}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

const plainText = /^[ !#-[\]-~]*$/;
const shortEscapes: Record<string, string> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

function quoted(text: string): string {
  if (plainText.test(text)) return `"${text}"`;
  let out = '"';
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] as string;
    const unit = text.charCodeAt(index);
    if (unit >= 0x20 && unit < 0x7f && character !== '"' && character !== '\\') out += character;
    else out += shortEscapes[character] ?? `\\u${unit.toString(16).padStart(4, '0')}`;
  }
  return `${out}"`;
}
