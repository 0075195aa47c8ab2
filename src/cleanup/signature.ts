/**
 * What was seen of an entry, so that a plan acts on exactly that: the inode and its times. Decimal texts, because
 * inodes and nanoseconds do not fit a JSON number.
 */
import type { Stat } from '#native';

export interface Signature {
  readonly device: string;
  readonly inode: string;
  readonly sizeBytes: number;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

export function signatureOf({ dev, ino, sizeBytes, mtimeNs, ctimeNs }: Stat): Signature {
  return {
    device: String(dev),
    inode: String(ino),
    sizeBytes,
    mtimeNs: String(mtimeNs),
    ctimeNs: String(ctimeNs),
  };
}

export function isSame(a: Signature, b: Signature): boolean {
  return (
    a.device === b.device &&
    a.inode === b.inode &&
    a.sizeBytes === b.sizeBytes &&
    a.mtimeNs === b.mtimeNs &&
    a.ctimeNs === b.ctimeNs
  );
}
