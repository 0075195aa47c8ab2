/** Which file system a path lies on, from tables as the kernel writes them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FailureError } from '../../../src/contract/failure.ts';
import { detectFilesystem } from '../../../src/store/domain.ts';
import { classifyFilesystem, mountOf, parseMounts, readMounts } from '../../../src/store/filesystem-type.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

const table = [
  '22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw',
  '30 22 0:25 / /dev/shm rw - tmpfs tmpfs rw',
  '31 22 8:1 / /data rw,noatime shared:7 master:2 propagate_from:2 - xfs /dev/sda1 rw',
  '32 31 0:44 / /data/nfs rw - nfs4 server:/x rw',
  String.raw`33 22 8:2 / /my\040disk\011tab\134slash rw - btrfs /dev/sdb rw,subvol=/\040x`,
  '34 22 8:3 / /twice rw - ext4 /dev/sdc rw',
  '35 22 0:50 / /twice rw - tmpfs tmpfs rw',
  '36 22 0:51 / /datastore rw - fuse.sshfs me@there:/ rw',
  String.raw`37 22 0:52 / /odd\134040name rw - zfs pool rw`,
  'not a line of the table',
  '',
].join('\n');
const mounts = parseMounts(table);
const typeAt = (path: string): string | undefined => mountOf(path, mounts)?.type;

test.each([
  ['/', 'ext4'],
  ['/home/me', 'ext4'],
  ['/dev/shm', 'tmpfs'],
  ['/dev/shm/store', 'tmpfs'],
  ['/data', 'xfs'],
  ['/data/store', 'xfs'],
  ['/data/nfs/store', 'nfs4'],
  ['/data/nfsother', 'xfs'],
  ['/database', 'ext4'],
  ['/datastore/x', 'fuse.sshfs'],
  ['/my disk\ttab\\slash/store', 'btrfs'],
  ['/odd\\040name/x', 'zfs'],
])('%j lies on %s', (path, type) => expect(typeAt(path)).toBe(type));

test('of two mounts on the same place the first listed counts, as for the Python side', () => {
  expect(typeAt('/twice/store')).toBe('ext4');
  expect(mountOf('/twice', mounts)?.device).toBe('8:3');
});

test('lines that are no mounts are passed over, and without a mount there is no answer', () => {
  expect(mounts).toHaveLength(9);
  expect(mountOf('/x', [])).toBeNull();
  expect(mountOf('/x', parseMounts('31 22 8:1 / /data rw - xfs /dev/sda1 rw'))).toBeNull();
});

test("this machine's own table has a root", () => {
  expect(mountOf('/', readMounts())).not.toBeNull();
});

describe('what a store may lie on', () => {
  const disks =
    'aufs bcachefs btrfs erofs ext2 ext3 ext4 f2fs fuseblk jfs ntfs3 overlay reiserfs rootfs xfs zfs'.split(
      ' ',
    );
  const remotes =
    '9p afs beegfs ceph cifs fuse.gcsfuse fuse.s3fs fuse.sshfs gcsfuse glusterfs gpfs lustre nfs nfs4 orangefs panfs s3fs smb3 sshfs virtiofs wekafs'.split(
      ' ',
    );

  test('a disk, or memory', () => {
    for (const type of disks)
      expect(classifyFilesystem(type)).toEqual({ kind: 'local', storageClass: 'disk' });
    for (const type of ['tmpfs', 'ramfs']) {
      expect(classifyFilesystem(type)).toEqual({ kind: 'local', storageClass: 'tmpfs' });
    }
  });

  test('nothing remote, and nothing that is not known', () => {
    for (const type of remotes) expect(classifyFilesystem(type)).toEqual({ kind: 'remote' });
    for (const type of ['fuse', 'proc', 'EXT4', '', 'fuse.other', 'squashfs', 'vfat']) {
      expect(classifyFilesystem(type)).toEqual({ kind: 'unknown' });
    }
  });

  test.each([
    ['/data/nfs/store', 'network or remote'],
    ['/datastore/x', 'fuse.sshfs'],
    ['/proc/x', 'not known to be a local file system'],
  ])('%s is refused, with the file system named', (path, words) => {
    const file = join(temporaryFolder(), 'mountinfo');
    writeFileSync(file, `${table}\n40 22 0:5 / /proc rw - proc proc rw`);
    try {
      detectFilesystem(path, file);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(FailureError);
      const { failure } = error as FailureError;
      expect(failure).toMatchObject({ code: 'domain_policy_mismatch', retryable: false });
      expect(failure.message).toContain(words);
    }
  });
});
