/**
 * Which file system a path lies on, and whether a domain may live there: the store needs locks that every
 * process of this machine sees and a page cache that they share, so only node-local file systems will do.
 * Source: host-weight store specification, section 1; proc(5) for mountinfo.
 */
import { readFileSync } from 'node:fs';

export type StorageClass = 'disk' | 'tmpfs';

export interface Mount {
  readonly mountPoint: string;
  /** As the kernel names it, for example `ext4`. */
  readonly type: string;
  /** `major:minor` of the superblock; on overlay and btrfs this can differ from a file's st_dev. */
  readonly device: string;
  readonly options: string;
}

export type FilesystemClass =
  | { readonly kind: 'local'; readonly storageClass: StorageClass }
  | { readonly kind: 'remote' }
  | { readonly kind: 'unknown' };

const memoryTypes = new Set(['tmpfs', 'ramfs']);
const diskTypes = new Set(
  'aufs bcachefs btrfs erofs ext2 ext3 ext4 f2fs fuseblk jfs ntfs3 overlay reiserfs rootfs xfs zfs'.split(
    ' ',
  ),
);
const remoteTypes = new Set(
  (
    '9p afs beegfs ceph cifs fuse.gcsfuse fuse.s3fs fuse.sshfs gcsfuse glusterfs gpfs lustre nfs nfs4 orangefs ' +
    'panfs s3fs smb3 sshfs virtiofs wekafs'
  ).split(' '),
);

export function classifyFilesystem(type: string): FilesystemClass {
  if (memoryTypes.has(type)) return { kind: 'local', storageClass: 'tmpfs' };
  if (diskTypes.has(type)) return { kind: 'local', storageClass: 'disk' };
  return remoteTypes.has(type) ? { kind: 'remote' } : { kind: 'unknown' };
}

export function readMounts(mountinfoPath = '/proc/self/mountinfo'): Mount[] {
  return parseMounts(readFileSync(mountinfoPath, 'utf8'));
}

export function parseMounts(text: string): Mount[] {
  const mounts: Mount[] = [];
  for (const line of text.split('\n')) {
    const separator = line.indexOf(' - ');
    if (separator < 0) continue;
    const [, , device, , mountPoint, options] = line.slice(0, separator).split(/\s+/);
    const [type] = line.slice(separator + 3).split(/\s+/);
    if (device === undefined || mountPoint === undefined || type === undefined || type === '') continue;
    mounts.push({ mountPoint: unescapeOctal(mountPoint), type, device, options: options ?? '' });
  }
  return mounts;
}

/** The kernel writes blanks and backslashes in paths as three octal digits. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/**
 * The most specific mount that contains an absolute path. Of two mounts with the same length the first
 * listed wins: that is what the Python side records in domain.json.
 */
export function mountOf(path: string, mounts: readonly Mount[]): Mount | null {
  let best: Mount | null = null;
  for (const mount of mounts) {
    const prefix = mount.mountPoint === '/' ? '/' : `${mount.mountPoint}/`;
    if (path !== mount.mountPoint && !path.startsWith(prefix)) continue;
    if (best === null || mount.mountPoint.length > best.mountPoint.length) best = mount;
  }
  return best;
}
