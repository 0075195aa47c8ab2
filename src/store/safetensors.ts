/**
 * The safetensors format, strictly: what a header says is believed only where every rule of the format
 * holds. A duplicate key, a gap, an overlap, trailing bytes or an offset past the end is refused and named.
 *
 * The reader works on bytes and not on JSON.parse, which would take the last of two equal keys without a
 * word and would need several times the memory for headers near the format's limit.
 *
 * Source: the safetensors format; host-weight store specification, section 4, for what we write.
 */
import { native } from '#native';
import { asciiChunks, canonicalJson, compareCodePoints } from './canonical-json.ts';
import { dtypes } from './dtypes.ts';
import { turn } from './turns.ts';

/** The format's own bound on the header, without the length field. */
export const maxHeaderBytes = 100_000_000;
const lengthFieldBytes = 8;

/** The bytes are not a safetensors file; the message says why and where. */
export class PayloadError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PayloadError';
  }
}

export interface HeaderTensor {
  readonly name: string;
  /** As safetensors names it, for example `BF16`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Byte range [start, end) counted from the first byte after the header. */
  readonly start: number;
  readonly end: number;
}

export interface PayloadHeader {
  /** Where tensor data begins: length field, header and padding. */
  readonly dataOffset: number;
  readonly metadata: ReadonlyMap<string, string>;
  /** In the order of their bytes. */
  readonly tensors: readonly HeaderTensor[];
}

/** Bits per element: what artifacts can hold, and what sources can besides. */
const elementBits = new Map<string, number>([
  ...dtypes.map((dtype) => [dtype.safetensors, dtype.bytes * 8] as const),
  ['U16', 16],
  ['U32', 32],
  ['U64', 64],
  ['C64', 64],
  ['F8_E8M0', 8],
  ['F6_E2M3', 6],
  ['F6_E3M2', 6],
  ['F4', 4],
]);

/** Reads and checks the header of an open file of `sizeBytes`. Throws PayloadError or a SystemError. */
export async function readHeader(fd: number, sizeBytes: number): Promise<PayloadHeader> {
  if (sizeBytes < lengthFieldBytes) {
    throw new PayloadError(`the file has ${sizeBytes} bytes, too few for a safetensors header`);
  }
  const lengthField = Buffer.alloc(lengthFieldBytes);
  if (native.preadSync(fd, lengthField, 0) !== lengthFieldBytes)
    throw new PayloadError('the file ended early');
  const declared = lengthField.readBigUInt64LE();
  if (declared > BigInt(maxHeaderBytes)) {
    throw new PayloadError(
      `the header claims ${declared} bytes; the format allows ${maxHeaderBytes}, so this is no safetensors file or one that no reader opens`,
    );
  }
  const length = Number(declared);
  if (lengthFieldBytes + length > sizeBytes) {
    throw new PayloadError(`the header claims ${length} bytes but the file has only ${sizeBytes}`);
  }
  const header = Buffer.allocUnsafe(length);
  if ((await native.pread(fd, header, lengthFieldBytes)) !== length)
    throw new PayloadError('the file ended early');
  // Several are read at once, and each is parsed in one piece.
  await turn();
  return parseHeader(header, sizeBytes - lengthFieldBytes - length);
}

/** Checks header bytes (without the length field) against the number of data bytes that follow them. */
export function parseHeader(header: Buffer, dataBytes: number): PayloadHeader {
  const { metadata, tensors } = new HeaderReader(header).read();
  tensors.sort((a, b) => a.start - b.start || a.end - b.end);
  let cursor = 0;
  for (const tensor of tensors) {
    const label = `tensor ${JSON.stringify(tensor.name)}`;
    if (tensor.start > cursor) {
      throw new PayloadError(
        `${label} starts at data offset ${tensor.start}: ${tensor.start - cursor} bytes before it belong to no tensor`,
      );
    }
    if (tensor.start < cursor) {
      throw new PayloadError(
        `${label} starts at data offset ${tensor.start}, inside the tensor before it, which ends at ${cursor}`,
      );
    }
    if (tensor.end > dataBytes) {
      throw new PayloadError(
        `${label} ends at data offset ${tensor.end}, past the end of the file's ${dataBytes} data bytes`,
      );
    }
    checkSize(tensor, label);
    cursor = tensor.end;
  }
  if (cursor !== dataBytes) {
    throw new PayloadError(`${dataBytes - cursor} bytes after data offset ${cursor} belong to no tensor`);
  }
  return { dataOffset: lengthFieldBytes + header.length, metadata, tensors };
}

function checkSize(tensor: HeaderTensor, label: string): void {
  const bits = elementBits.get(tensor.dtype);
  if (bits === undefined)
    throw new PayloadError(`${label} has the unknown dtype ${JSON.stringify(tensor.dtype)}`);
  requireCountable(tensor.shape, label);
  const expected = tensor.shape.reduce((total, size) => total * BigInt(size), BigInt(bits));
  if (expected !== BigInt(tensor.end - tensor.start) * 8n) {
    throw new PayloadError(
      `${label} is [${tensor.shape.join(', ')}] of ${tensor.dtype}, ${expected / 8n} bytes, but its range holds ${tensor.end - tensor.start}`,
    );
  }
}

/**
 * Other readers multiply the sizes one after another in machine integers, a size of 0 among them or not, and
 * so do strides from the other end: a shape that overflows on the way is one that they refuse.
 */
function requireCountable(shape: readonly number[], label: string): void {
  let elements = 1;
  let stride = 1;
  for (let axis = 0; axis < shape.length; axis += 1) {
    elements *= shape[axis] as number;
    stride *= Math.max(shape[shape.length - 1 - axis] as number, 1);
    if (Number.isSafeInteger(elements) && Number.isSafeInteger(stride)) continue;
    throw new PayloadError(
      `${label} has the shape [${shape.join(', ')}], whose sizes multiply past what can be counted`,
    );
  }
}

export interface PayloadTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly nbytes: number;
}

/**
 * Length field and header of a payload as vLLM-Omni's writer lays it out: tensors in name order without
 * gaps, compact JSON sorted at every level, padded with spaces to a multiple of 8.
 */
export function encodeHeader(tensors: readonly PayloadTensor[]): Buffer {
  const json = Buffer.concat([...asciiChunks(headerPieces(tensors))]);
  const padded = Math.ceil(json.length / 8) * 8;
  const out = Buffer.alloc(lengthFieldBytes + padded, ' ');
  out.writeBigUInt64LE(BigInt(padded));
  json.copy(out, lengthFieldBytes);
  return out;
}

const metadataKey = '__metadata__';
const metadataPiece = canonicalJson({ [metadataKey]: { format: 'pt', host_weight_runtime: '1' } }).slice(
  1,
  -1,
);

function* headerPieces(tensors: readonly PayloadTensor[]): Iterable<string> {
  const sorted = [...tensors].sort((a, b) => compareCodePoints(a.name, b.name));
  // The metadata stands among the tensors, where its own name sorts.
  const before = sorted.findIndex(({ name }) => compareCodePoints(name, metadataKey) > 0);
  let cursor = 0;
  let separator = '{';
  for (const [index, { name, dtype, shape, nbytes }] of sorted.entries()) {
    if (index === before) {
      yield separator + metadataPiece;
      separator = ',';
    }
    const entry = canonicalJson({ data_offsets: [cursor, cursor + nbytes], dtype, shape });
    yield `${separator}${canonicalJson(name)}:${entry}`;
    separator = ',';
    cursor += nbytes;
  }
  yield before < 0 ? `${separator}${metadataPiece}}` : '}';
}

const unit = {
  quote: 0x22,
  backslash: 0x5c,
  comma: 0x2c,
  colon: 0x3a,
  open: 0x7b,
  close: 0x7d,
  openList: 0x5b,
  closeList: 0x5d,
};

/** One pass over the header's bytes; positions in messages count from the header's first byte. */
class HeaderReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): { metadata: Map<string, string>; tensors: HeaderTensor[] } {
    let metadata = new Map<string, string>();
    const tensors: HeaderTensor[] = [];
    const seen = new Set<string>();
    if (this.#bytes[0] !== unit.open) throw this.#error('a header must begin with {');
    this.#object((key) => {
      if (seen.has(key)) throw new PayloadError(`the header names ${JSON.stringify(key)} twice`);
      seen.add(key);
      if (key === '__metadata__') metadata = this.#metadata();
      else tensors.push(this.#tensor(key));
    });
    this.#blank();
    if (this.#at !== this.#bytes.length) throw this.#error('more text follows the header');
    return { metadata, tensors };
  }

  #error(message: string): PayloadError {
    return new PayloadError(`${message} (header byte ${this.#at})`);
  }

  #blank(): void {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at += 1;
    }
  }

  #expect(byte: number): void {
    this.#blank();
    if (this.#bytes[this.#at] !== byte) throw this.#error(`expected ${String.fromCharCode(byte)}`);
    this.#at += 1;
  }

  /** Whether `byte` comes next; it is consumed if so. */
  #taken(byte: number): boolean {
    this.#blank();
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at += 1;
    return true;
  }

  #object(member: (key: string) => void): void {
    this.#expect(unit.open);
    if (this.#taken(unit.close)) return;
    do {
      const key = this.#string();
      this.#expect(unit.colon);
      member(key);
    } while (this.#taken(unit.comma));
    this.#expect(unit.close);
  }

  #metadata(): Map<string, string> {
    const metadata = new Map<string, string>();
    this.#object((key) => {
      if (metadata.has(key)) throw new PayloadError(`__metadata__ names ${JSON.stringify(key)} twice`);
      metadata.set(key, this.#string());
    });
    return metadata;
  }

  #tensor(name: string): HeaderTensor {
    let dtype: string | undefined;
    let shape: number[] | undefined;
    let offsets: number[] | undefined;
    this.#object((key) => {
      const label = `tensor ${JSON.stringify(name)}`;
      if (key === 'dtype' && dtype === undefined) dtype = this.#string();
      else if (key === 'shape' && shape === undefined) shape = this.#integers();
      else if (key === 'data_offsets' && offsets === undefined) offsets = this.#integers();
      else throw new PayloadError(`${label} has ${JSON.stringify(key)} twice or where it does not belong`);
    });
    const [start, end, ...rest] = offsets ?? [];
    if (
      dtype === undefined ||
      shape === undefined ||
      start === undefined ||
      end === undefined ||
      rest.length > 0
    ) {
      throw new PayloadError(`tensor ${JSON.stringify(name)} needs dtype, shape and two data_offsets`);
    }
    if (end < start)
      throw new PayloadError(`tensor ${JSON.stringify(name)} ends at ${end}, before its start ${start}`);
    return { name, dtype, shape, start, end };
  }

  #integers(): number[] {
    const values: number[] = [];
    this.#expect(unit.openList);
    if (this.#taken(unit.closeList)) return values;
    do {
      values.push(this.#integer());
    } while (this.#taken(unit.comma));
    this.#expect(unit.closeList);
    return values;
  }

  #integer(): number {
    this.#blank();
    const from = this.#at;
    let value = 0;
    for (;;) {
      const digit = (this.#bytes[this.#at] ?? 0) - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      this.#at += 1;
    }
    const leadingZero = this.#bytes[from] === 0x30 && this.#at - from > 1;
    if (this.#at === from || leadingZero) throw this.#error('expected an integer that is not negative');
    if (!Number.isSafeInteger(value)) throw this.#error('an integer is larger than any file');
    return value;
  }

  #string(): string {
    this.#expect(unit.quote);
    const from = this.#at;
    let escaped = false;
    for (; ; this.#at += 1) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) throw this.#error('a string has no end');
      if (byte === unit.quote) break;
      if (byte === unit.backslash) {
        escaped = true;
        this.#at += 1;
      } else if (byte < 0x20) throw this.#error('a control character stands in a string');
    }
    const raw = this.#bytes.subarray(from, this.#at);
    this.#at += 1;
    const text = this.#decode(raw);
    return escaped ? this.#unescape(text) : text;
  }

  #unescape(text: string): string {
    let value: string;
    try {
      value = JSON.parse(`"${text}"`) as string;
    } catch {
      throw this.#error('a string has an unknown escape');
    }
    if (!value.isWellFormed()) throw this.#error('a string has half of a surrogate pair, which is no text');
    return value;
  }

  #decode(raw: Buffer): string {
    for (const byte of raw) {
      if (byte < 0x80) continue;
      try {
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw);
      } catch {
        throw this.#error('a string is not UTF-8');
      }
    }
    return raw.toString('latin1');
  }
}
