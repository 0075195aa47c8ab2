/**
 * Digests of checkpoint files, under the signature that each file had: a build that finds one need not read the
 * file for it. Trusting them is the caller's choice, as make trusts times: a file whose bytes were changed
 * behind the file system's back (a flipped bit) keeps its signature.
 */
import type { Stat } from '#native';
import type { Connection } from './database.ts';

export type SourceSignature = Pick<Stat, 'dev' | 'ino' | 'sizeBytes' | 'mtimeNs' | 'ctimeNs'>;

export class SourceDigests {
  readonly #connection: Connection;
  readonly #now: () => number;

  constructor(connection: Connection, now: () => number) {
    this.#connection = connection;
    this.#now = now;
  }

  /** Lower-case hex; null where the file is not known as it is now. */
  find({ dev, ino, sizeBytes, mtimeNs, ctimeNs }: SourceSignature): string | null {
    const row = this.#connection
      .prepare(
        'SELECT sha256 FROM source_file WHERE device = ? AND inode = ? AND size = ? AND mtime_ns = ? AND ctime_ns = ?',
      )
      .get(String(dev), String(ino), sizeBytes, String(mtimeNs), String(ctimeNs));
    return (row as { sha256: string } | undefined)?.sha256 ?? null;
  }

  /** `signature` is of before the file was read. */
  remember({ dev, ino, sizeBytes, mtimeNs, ctimeNs }: SourceSignature, sha256: string): void {
    this.#connection
      .prepare(
        `INSERT OR REPLACE INTO source_file (device, inode, size, mtime_ns, ctime_ns, sha256, digested_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(String(dev), String(ino), sizeBytes, String(mtimeNs), String(ctimeNs), sha256, this.#now());
  }
}
