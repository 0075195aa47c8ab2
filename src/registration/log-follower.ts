/**
 * Reads a log from its beginning and then what is added, without holding more than a piece of it: a log can be many
 * GiB. A file that was replaced (rotation) or cut is read from its beginning; a last line without an end waits.
 */
import { open, stat, type FileHandle } from 'node:fs/promises';
import { tellingWord } from './worker-log.ts';

const pieceBytes = 1024 ** 2;
/** A line that is longer than this is no log line of a worker's. */
const longestLine = 64 * 1024;
const word = Buffer.from(tellingWord);
const newline = 10;

export class LogFollower {
  readonly #path: string;
  readonly #onLine: (line: string) => void;
  #file: FileHandle | null = null;
  #inode: bigint | null = null;
  #position = 0;
  #rest: Buffer = Buffer.alloc(0);

  /** `onLine` gets every line that has the telling word in it. */
  constructor(path: string, onLine: (line: string) => void) {
    this.#path = path;
    this.#onLine = onLine;
  }

  /** Reads to the end that the log has now. Throws a SystemError where it was never there; later absence is waited out. */
  async readOn(signal?: AbortSignal): Promise<void> {
    if (this.#file === null) await this.#open();
    await this.#drain(signal);
    if (!(await this.#wasReplaced())) return;
    // What was still written to the old file before it was moved has been read.
    this.#take(Buffer.from('\n'));
    await this.close();
    await this.#open();
    await this.#drain(signal);
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
    this.#position = 0;
    this.#rest = Buffer.alloc(0);
  }

  async #open(): Promise<void> {
    this.#file = await open(this.#path, 'r');
    this.#inode = (await this.#file.stat({ bigint: true })).ino;
  }

  async #wasReplaced(): Promise<boolean> {
    try {
      const { ino, size } = await stat(this.#path, { bigint: true });
      return ino !== this.#inode || size < BigInt(this.#position);
    } catch {
      return false;
    }
  }

  async #drain(signal: AbortSignal | undefined): Promise<void> {
    const piece = Buffer.allocUnsafe(pieceBytes);
    for (;;) {
      if (this.#file === null || signal?.aborted === true) return;
      const { bytesRead } = await this.#file.read(piece, 0, pieceBytes, this.#position);
      if (bytesRead === 0) return;
      this.#position += bytesRead;
      this.#take(piece.subarray(0, bytesRead));
    }
  }

  #take(piece: Buffer): void {
    const first = piece.indexOf(newline);
    if (first < 0) {
      if (this.#rest.length <= longestLine) this.#rest = Buffer.concat([this.#rest, piece]);
      return;
    }
    this.#tell(Buffer.concat([this.#rest, piece.subarray(0, first)]));
    const last = piece.lastIndexOf(newline);
    this.#rest = Buffer.from(piece.subarray(last + 1));
    let at = first + 1;
    while (at < last) {
      const found = piece.indexOf(word, at);
      if (found < 0 || found >= last) return;
      const start = piece.lastIndexOf(newline, found) + 1;
      const end = piece.indexOf(newline, found);
      this.#tell(piece.subarray(start, end));
      at = end + 1;
    }
  }

  #tell(line: Buffer): void {
    if (line.length <= longestLine && line.includes(word)) this.#onLine(line.toString('utf8'));
  }
}
