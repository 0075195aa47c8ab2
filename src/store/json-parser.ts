/**
 * Reads JSON as the Python workers do, into the values of canonical-json.ts: whole numbers exactly, whatever
 * their size, and floats kept apart from them. Of two equal keys the last one wins.
 */
import { isAscii } from 'node:buffer';
import {
  JsonError,
  JsonFloat,
  maxDepth,
  maxIntegerDigits,
  type JsonObject,
  type JsonValue,
} from './canonical-json.ts';
import { atOnce, type Steps } from './turns.ts';

export interface ParseOptions {
  /** Throws where an object has a key twice, for documents whose writer can't have meant that. */
  readonly refuseDuplicates?: boolean;
  /**
   * The bytes, all of their buffer, are not needed any more: their memory is given back before the values take
   * theirs, and not when the garbage collector comes round to it.
   */
  readonly consume?: boolean;
}

/**
 * Reads bytes as Python's json.loads does: UTF-8 (surrogates let through) with or without a byte order mark,
 * UTF-16 or UTF-32, told apart by their first bytes.
 */
export function parseJsonBytes(bytes: Uint8Array, options: ParseOptions = {}): JsonValue {
  return atOnce(jsonSteps(bytes, options));
}

/** The same, a step per item of the outermost value and of the values right below it. */
export function* jsonSteps(bytes: Uint8Array, options: ParseOptions = {}): Steps<JsonValue> {
  const text = decode(bytes);
  if (options.consume) (bytes.buffer as ArrayBuffer).transfer(0);
  return yield* new Parser(text, options).document();
}

export function parseJson(text: string): JsonValue {
  return atOnce(new Parser(text, {}).document());
}

function decode(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const encoding = detectEncoding(buffer);
  if (encoding === 'utf-8') return decodeUtf8(buffer);
  return encoding.startsWith('utf-16') ? decodeUtf16(buffer, encoding) : decodeUtf32(buffer, encoding);
}

type Encoding = 'utf-8' | 'utf-16' | 'utf-16-le' | 'utf-16-be' | 'utf-32' | 'utf-32-le' | 'utf-32-be';

/** RFC 4627, section 3, extended by byte order marks, in the order in which CPython looks. */
function detectEncoding(b: Buffer): Encoding {
  const mark = (...values: number[]): boolean => values.every((value, index) => b[index] === value);
  if (mark(0x00, 0x00, 0xfe, 0xff) || mark(0xff, 0xfe, 0x00, 0x00)) return 'utf-32';
  if (mark(0xfe, 0xff) || mark(0xff, 0xfe)) return 'utf-16';
  if (mark(0xef, 0xbb, 0xbf)) return 'utf-8';
  if (b.length >= 4) {
    if (b[0] === 0) return b[1] === 0 ? 'utf-32-be' : 'utf-16-be';
    if (b[1] === 0) return b[2] !== 0 || b[3] !== 0 ? 'utf-16-le' : 'utf-32-le';
  } else if (b.length === 2) {
    if (b[0] === 0) return 'utf-16-be';
    if (b[1] === 0) return 'utf-16-le';
  }
  return 'utf-8';
}

function decodeUtf8(buffer: Buffer): string {
  const start = buffer[0] === 0xef && buffer[1] === 0xbb && buffer[2] === 0xbf ? 3 : 0;
  const body = buffer.subarray(start);
  if (isAscii(body)) return body.toString('latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return decodeUtf8WithSurrogates(body);
  }
}

/** Python's `surrogatepass`: three-byte sequences that encode a surrogate are let through, all else is strict. */
function decodeUtf8WithSurrogates(buffer: Buffer): string {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let out = '';
  let from = 0;
  const strict = (end: number): void => {
    try {
      out += decoder.decode(buffer.subarray(from, end));
    } catch {
      throw new JsonError('the text is not UTF-8');
    }
  };
  for (let index = 0; index + 2 < buffer.length; index += 1) {
    const second = buffer[index + 1] as number;
    const third = buffer[index + 2] as number;
    if (buffer[index] !== 0xed || second < 0xa0 || second > 0xbf || third < 0x80 || third > 0xbf) continue;
    strict(index);
    out += String.fromCharCode(0xd000 | ((second & 0x3f) << 6) | (third & 0x3f));
    from = index + 3;
    index += 2;
  }
  strict(buffer.length);
  return out;
}

function decodeUtf16(buffer: Buffer, encoding: Encoding): string {
  if (buffer.length % 2 !== 0) throw new JsonError('the text is not UTF-16');
  const marked = encoding === 'utf-16';
  const big = marked ? buffer[0] === 0xfe : encoding === 'utf-16-be';
  const body = Buffer.from(buffer.subarray(marked ? 2 : 0));
  return (big ? body.swap16() : body).toString('utf16le');
}

function decodeUtf32(buffer: Buffer, encoding: Encoding): string {
  if (buffer.length % 4 !== 0) throw new JsonError('the text is not UTF-32');
  const marked = encoding === 'utf-32';
  const big = marked ? buffer[0] === 0x00 : encoding === 'utf-32-be';
  let out = '';
  for (let offset = marked ? 4 : 0; offset < buffer.length; offset += 4) {
    const point = big ? buffer.readUInt32BE(offset) : buffer.readUInt32LE(offset);
    if (point > 0x10ffff) throw new JsonError('the text is not UTF-32');
    out += String.fromCodePoint(point);
  }
  return out;
}

const numberPattern = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const ownField = { writable: true, enumerable: true, configurable: true };
const quoteUnit = 0x22;
const backslashUnit = 0x5c;

/** Values at this depth and below are parsed in one step: the entry of a tensor in a manifest. */
const stepDepth = 2;

/**
 * A plain object, which the engine keeps fast; `__proto__` is the one key that it would not store. A key that is
 * there already loses its value: the last one wins.
 */
function put(object: Record<string, JsonValue>, key: string, value: JsonValue): void {
  if (key === '__proto__') Object.defineProperty(object, key, { ...ownField, value });
  else object[key] = value;
}

class Parser {
  readonly #text: string;
  readonly #refuseDuplicates: boolean;
  #at = 0;

  constructor(text: string, { refuseDuplicates = false }: ParseOptions) {
    this.#text = text;
    this.#refuseDuplicates = refuseDuplicates;
  }

  *document(): Steps<JsonValue> {
    this.#blank();
    const value = yield* this.#outerValue(0);
    this.#blank();
    if (this.#at !== this.#text.length) throw this.#error('there is more text after the value');
    return value;
  }

  #error(message: string): JsonError {
    return new JsonError(message, this.#at);
  }

  #blank(): void {
    for (;;) {
      const unit = this.#text.charCodeAt(this.#at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.#at += 1;
    }
  }

  #value(depth: number): JsonValue {
    if (depth > maxDepth) throw this.#error('nested too deeply');
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case '"':
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #word<T extends JsonValue>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#error('expected a value');
    this.#at += word.length;
    return value;
  }

  /** The outer levels are where a large document is long; further in, a value is one step. */
  *#outerValue(depth: number): Steps<JsonValue> {
    yield;
    if (depth >= stepDepth) return this.#value(depth);
    switch (this.#text[this.#at]) {
      case '{': {
        const object: Record<string, JsonValue> = {};
        for (let more = this.#enter('}'); more; more = this.#next('}', 'brace')) {
          const key = this.#key(object);
          put(object, key, yield* this.#outerValue(depth + 1));
        }
        return object;
      }
      case '[': {
        const items: JsonValue[] = [];
        for (let more = this.#enter(']'); more; more = this.#next(']', 'bracket')) {
          items.push(yield* this.#outerValue(depth + 1));
        }
        return items;
      }
      default:
        return this.#value(depth);
    }
  }

  #object(depth: number): JsonObject {
    const object: Record<string, JsonValue> = {};
    for (let more = this.#enter('}'); more; more = this.#next('}', 'brace')) {
      const key = this.#key(object);
      put(object, key, this.#value(depth + 1));
    }
    return object;
  }

  #array(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    for (let more = this.#enter(']'); more; more = this.#next(']', 'bracket')) {
      items.push(this.#value(depth + 1));
    }
    // A list that grew has room for more; a document with many short ones would be mostly that.
    return items.slice();
  }

  /** Past the opening character: true where something is in it. */
  #enter(closing: '}' | ']'): boolean {
    this.#at += 1;
    this.#blank();
    if (this.#text[this.#at] !== closing) return true;
    this.#at += 1;
    return false;
  }

  /** Past the end of an item: true where another one follows. */
  #next(closing: '}' | ']', word: string): boolean {
    this.#blank();
    const next = this.#text[this.#at];
    if (next !== ',' && next !== closing) throw this.#error(`expected a comma or a closing ${word}`);
    this.#at += 1;
    if (next === closing) return false;
    this.#blank();
    return true;
  }

  /** A member's key, up to its value. */
  #key(object: JsonObject): string {
    if (this.#text[this.#at] !== '"') throw this.#error('expected a key in double quotes');
    const key = this.#string();
    this.#blank();
    if (this.#text[this.#at] !== ':') throw this.#error('expected a colon');
    this.#at += 1;
    this.#blank();
    if (this.#refuseDuplicates && Object.hasOwn(object, key)) {
      throw this.#error(`the key ${JSON.stringify(key)} stands there twice`);
    }
    return key;
  }

  #string(): string {
    const text = this.#text;
    let from = this.#at + 1;
    let out = '';
    for (let at = from; ; at += 1) {
      const unit = text.charCodeAt(at);
      if (unit === quoteUnit) {
        this.#at = at + 1;
        return out === '' ? text.slice(from, at) : out + text.slice(from, at);
      }
      if (unit === backslashUnit) {
        out += text.slice(from, at);
        this.#at = at + 1;
        out += this.#escape();
        at = this.#at - 1;
        from = this.#at;
      } else if (!(unit >= 0x20)) {
        this.#at = at;
        throw this.#error(
          at >= text.length ? 'a string has no end' : 'a control character stands in a string',
        );
      }
    }
  }

  #escape(): string {
    const character = this.#text[this.#at];
    this.#at += 1;
    switch (character) {
      case '"':
      case '\\':
      case '/':
        return character;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u': {
        const digits = this.#text.slice(this.#at, this.#at + 4);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#error('expected four hex digits');
        this.#at += 4;
        return String.fromCharCode(Number.parseInt(digits, 16));
      }
      default:
        this.#at -= 1;
        throw this.#error('an unknown escape');
    }
  }

  #number(): JsonValue {
    return this.#shortInteger() ?? this.#anyNumber();
  }

  /** The common case without a pattern: a few digits that neither a point nor an exponent follows. */
  #shortInteger(): number | null {
    let value = 0;
    let at = this.#at;
    for (; at - this.#at < 15; at += 1) {
      const digit = this.#text.charCodeAt(at) - 0x30;
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
    }
    const digits = at - this.#at;
    const leadingZero = digits > 1 && this.#text.charCodeAt(this.#at) === 0x30;
    if (digits === 0 || leadingZero || /[\d.eE]/.test(this.#text.charAt(at))) return null;
    this.#at = at;
    return value;
  }

  #anyNumber(): JsonValue {
    numberPattern.lastIndex = this.#at;
    const match = numberPattern.exec(this.#text);
    if (match === null) throw this.#error('expected a value');
    const [token, fraction, exponent] = match;
    this.#at += token.length;
    if (fraction === undefined && exponent === undefined) {
      if (token.length - (token.startsWith('-') ? 1 : 0) > maxIntegerDigits) {
        throw this.#error(`an integer has more than ${maxIntegerDigits} digits`);
      }
      const integer = Number(token);
      if (Number.isSafeInteger(integer)) return integer === 0 ? 0 : integer;
      return BigInt(token);
    }
    const float = Number(token);
    if (!Number.isFinite(float)) throw this.#error(`${token} is not a finite number`);
    return Number.isInteger(float) ? new JsonFloat(float) : float;
  }
}
