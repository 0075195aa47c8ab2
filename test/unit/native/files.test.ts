import {
  constants,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';

import { isSystemError, native, newProgress } from '../../../native/index.ts';
import { expectCode, failureOf, opened, temporaryFolder } from './support.ts';

const { O_CREAT, O_EXCL, O_RDWR, O_DIRECTORY } = constants;
const unchecked = native as unknown as Record<string, (...args: unknown[]) => unknown>;

const labelled = ([name, args]: [string, unknown[]]): [string, string, unknown[]] => [
  `${name} ${inspect(args, { breakLength: Infinity })}`,
  name,
  args,
];

/** Calls with arguments that no system call may see, whatever TypeScript says about them. */
describe('refused arguments', () => {
  const bytes = new Uint8Array(4);
  const type: [string, unknown[]][] = [
    ['open', []],
    ['open', [7, 0]],
    ['open', ['/tmp', '0']],
    ['open', ['/tmp', 0, '0600']],
    ['openat', ['3', 'name', 0]],
    ['openat', [3, Buffer.from('name'), 0]],
    ['close', [undefined]],
    ['close', [3n]],
    ['fstat', [null]],
    ['fstatat', [3, undefined]],
    ['mkdirat', [3, 'name']],
    ['renameat', [3, 'a', 3]],
    ['ftruncate', [3, 5n]],
    ['flockTry', [3, 1]],
    ['flockTry', [3]],
    ['flockRelease', ['3']],
    ['preadSync', [3, [1, 2], 0]],
    ['preadSync', [3, new Uint16Array(2), 0]],
    ['preadSync', [3, new ArrayBuffer(2), 0]],
    ['pwriteSync', [3, 'text', 0]],
    ['pread', [3, bytes]],
    ['pwrite', [3, new DataView(new ArrayBuffer(2)), 0]],
    ['fsync', [true]],
    ['fallocate', [3]],
    ['sha256', ['text']],
    ['sha256Portable', [undefined]],
    ['sha256Ranges', [{ fd: 3, offset: 0, length: 5 }]],
    ['sha256Ranges', [[5]]],
    ['sha256Ranges', [[{ fd: 3, offset: 0, length: '5' }]]],
    ['sha256Ranges', [[], new BigUint64Array(2)]],
    ['sha256Ranges', [[], null]],
    ['payloadWriter', [3, 'prefix', 0]],
    ['payloadWriter', [3, bytes, [5]]],
    ['payloadWriter', [3, bytes, '2']],
    ['castToBfloat16', ['none', bytes]],
    ['castToBfloat16', ['bf16', bytes]],
    ['listTree', ['/tmp']],
    ['treeBytes', []],
    ['removeTree', [3]],
    ['setParentDeathSignal', ['SIGTERM']],
  ];
  const range: [string, unknown[]][] = [
    ['open', ['', 0]],
    ['open', ['/tmp\0/x', 0]],
    ['open', ['/tmp/\ud800', 0]],
    ['open', ['/tmp', -1]],
    ['open', ['/tmp', 0, 0o10000]],
    ['close', [-1]],
    ['close', [1.5]],
    ['close', [NaN]],
    ['close', [2 ** 31]],
    ['fstat', [-100]],
    ['fchmod', [3, -1]],
    ['ftruncate', [3, -1]],
    ['ftruncate', [3, 2 ** 53]],
    ['preadSync', [3, bytes, -1]],
    ['pwriteSync', [3, bytes, Infinity]],
    ['pread', [3, bytes, 2 ** 53 - 1]],
    ['fallocate', [3, 0.5]],
    ['sha256Ranges', [[{ fd: 3, offset: 2 ** 53 - 1, length: 1 }]]],
    ['sha256Ranges', [[], new BigInt64Array(1)]],
    ['payloadWriter', [3, bytes, -1]],
    ['payloadWriter', [3, bytes, 2 ** 53 - 1]],
    ['castToBfloat16', ['f32-to-bf16', new Uint8Array(6)]],
    ['castToBfloat16', ['f16-to-bf16', new Uint8Array(1)]],
    ['setParentDeathSignal', [65]],
    ...['', '.', '..', 'a/b', '/', 'a/', 'a\0', '\udc00', '\ud800x'].flatMap(
      (name): [string, unknown[]][] => [
        ['openat', [3, name, 0]],
        ['fstatat', [3, name]],
        ['mkdirat', [3, name, 0o700]],
        ['renameat', [3, name, 3, 'to']],
        ['renameat', [3, 'from', 3, name]],
        ['unlinkat', [3, name]],
        ['removeTree', [3, name]],
      ],
    ),
  ];

  test.each(type.map(labelled))('%s is a TypeError', (_, name, args) => {
    expect(() => unchecked[name]?.(...args)).toThrow(TypeError);
  });
  test.each(range.map(labelled))('%s is a RangeError', (_, name, args) => {
    expect(() => unchecked[name]?.(...args)).toThrow(RangeError);
  });
});

test('failures have the shape of Node’s own', async () => {
  const folder = temporaryFolder();
  const error = await failureOf(() => native.openat(folder.fd, 'name', 0));
  if (!isSystemError(error)) throw error;
  expect(error.message).toBe("ENOENT: no such file or directory, openat 'name'");
  expect([error.code, error.errno, error.syscall]).toEqual(['ENOENT', 2, 'openat']);
  const rejected = await failureOf(() => native.fsync(2 ** 31 - 1));
  if (!isSystemError(rejected)) throw rejected;
  expect(rejected.message).toBe('EBADF: bad file descriptor, fsync');
});

describe('calls on files', () => {
  test('what each leaves behind', async () => {
    const folder = temporaryFolder();
    const fd = native.openat(folder.fd, 'file', O_RDWR | O_CREAT | O_EXCL, 0o640);
    native.pwriteSync(fd, Buffer.from('0123456789'), 3);
    native.fchmod(fd, 0o440);
    await native.pwrite(fd, Buffer.from('xy'), 12);
    await native.fsync(fd);
    expect(readFileSync(folder.at('file'), 'latin1')).toBe('\0\0\x00012345678xy');
    const buffer = new Uint8Array(8);
    expect(native.preadSync(fd, buffer, 10)).toBe(4);
    expect(await native.pread(fd, buffer.subarray(4), 3)).toBe(4);
    expect(Buffer.from(buffer).toString('latin1')).toBe('78xy0123');
    native.ftruncate(fd, 5);
    await native.fallocate(fd, 10_000);

    const stat = native.fstat(fd);
    const known = statSync(folder.at('file'), { bigint: true });
    expect(stat).toEqual({
      dev: known.dev,
      ino: known.ino,
      mode: 0o100440,
      nlink: 1,
      uid: Number(known.uid),
      gid: Number(known.gid),
      sizeBytes: 10_000,
      allocatedBytes: Number(known.blocks) * 512,
      mtimeNs: known.mtimeNs,
      ctimeNs: known.ctimeNs,
    });
    expect(native.fstatat(folder.fd, 'file')).toEqual(stat);
    expect(native.lstat(folder.at('file'))).toEqual(stat);
    native.close(fd);
    await expectCode(() => native.openat(folder.fd, 'file', O_CREAT | O_EXCL), 'EEXIST');

    native.mkdirat(folder.fd, 'below', 0o700);
    const below = opened(folder.at('below'), O_DIRECTORY);
    native.renameat(folder.fd, 'file', below, 'renamed');
    expect(native.readdir(folder.fd)).toEqual(['below']);
    expect(native.readdir(below)).toEqual(['renamed']);
    expect(native.readdir(below)).toEqual(['renamed']);
    await expectCode(() => native.unlinkat(folder.fd, 'below'), 'EISDIR');
    native.unlinkat(below, 'renamed');
    expect(native.readdir(below)).toEqual([]);
  });

  test('links are not followed', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('directory'));
    symlinkSync('directory', folder.at('link'));
    await expectCode(() => native.openat(folder.fd, 'link', 0), 'ELOOP');
    await expectCode(() => native.openat(folder.fd, 'link', O_DIRECTORY), 'ENOTDIR');
    expect(native.fstatat(folder.fd, 'link').mode & constants.S_IFMT).toBe(constants.S_IFLNK);
    expect(native.lstat(folder.at('link')).mode & constants.S_IFMT).toBe(constants.S_IFLNK);
    native.unlinkat(folder.fd, 'link');
    expect(native.readdir(folder.fd)).toEqual(['directory']);
  });

  test('buffers may stand on shared memory', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), 'shared');
    const buffer = new Uint8Array(new SharedArrayBuffer(6));
    expect(await native.pread(opened(folder.at('file')), buffer, 0)).toBe(6);
    expect(Buffer.from(buffer).toString()).toBe('shared');
  });
});

test('every descriptor is closed on exec', async () => {
  const folder = temporaryFolder();
  writeFileSync(folder.at('file'), new Uint8Array(3 << 20));
  const held = [native.open(folder.path, 0), native.openat(folder.fd, 'file', O_RDWR), folder.fd];
  const progress = newProgress();
  native.ftruncate(held[1] ?? -1, 2 ** 40);
  const digest = failureOf(() =>
    native.sha256Ranges([{ fd: held[1] ?? -1, offset: 0, length: 2 ** 40 }], progress),
  );
  const listing = native.listTree(folder.fd);
  // Whatever the addon holds for itself meanwhile points into the folder too.
  const pointing = native
    .readdir(opened('/proc/self/fd', 0))
    .filter((fd) => linkTarget(fd).startsWith(folder.path));
  expect(pointing.length).toBeGreaterThanOrEqual(held.length);
  for (const fd of pointing) expect(flagsOf(fd) & 0o2000000, `descriptor ${fd}`).not.toBe(0);
  await listing;
  Atomics.store(progress, 1, 1n);
  await digest;
  for (const fd of held.slice(0, 2)) native.close(fd);
});

function linkTarget(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}

function flagsOf(fd: string): number {
  try {
    return parseInt(/^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '', 8);
  } catch {
    // One of the addon's own that has been closed since.
    return 0o2000000;
  }
}

describe('names', () => {
  const names: [string, number[], string][] = [
    ['ASCII', [0x61, 0x62], 'ab'],
    ['UTF-8 of two, three and four bytes', [0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x92, 0x80], 'é€💀'],
    ['a byte that UTF-8 has not', [0x61, 0xff, 0x62], 'a\udcffb'],
    ['Latin-1', [0xe9, 0x74, 0xe9], '\udce9t\udce9'],
    ['a cut sequence', [0xe2, 0x82, 0x41], '\udce2\udc82A'],
    ['a cut sequence at the end', [0xf0, 0x9f, 0x92], '\udcf0\udc9f\udc92'],
    ['an overlong form', [0xc0, 0xaf], '\udcc0\udcaf'],
    ['another overlong form', [0xe0, 0x80, 0xaf], '\udce0\udc80\udcaf'],
    ['an encoded surrogate', [0xed, 0xb2, 0x80], '\udced\udcb2\udc80'],
    ['past U+10FFFF', [0xf4, 0x90, 0x80, 0x80], '\udcf4\udc90\udc80\udc80'],
  ];

  test.each(names)('%s', (_, bytes, name) => {
    const folder = temporaryFolder();
    writeFileSync(Buffer.concat([Buffer.from(`${folder.path}/`), Buffer.from(bytes)]), 'here');
    expect(native.readdir(folder.fd)).toEqual([name]);
    const fd = native.openat(folder.fd, name, 0);
    expect(native.fstat(fd)).toEqual(native.lstat(folder.at(name)));
    native.close(fd);
    native.unlinkat(folder.fd, name);
    expect(native.readdir(folder.fd)).toEqual([]);
  });

  test('they also travel through trees and messages', async () => {
    const folder = temporaryFolder();
    const name = 'tree-\udcff';
    native.mkdirat(folder.fd, name, 0o700);
    expect((await native.listTree(folder.fd)).map((entry) => entry.name)).toEqual([name]);
    await native.removeTree(folder.fd, name);
    const error = await failureOf(() => native.openat(folder.fd, name, 0));
    expect((error as Error).message).toBe(`ENOENT: no such file or directory, openat '${name}'`);
  });

  test('one that is too long for the kernel', async () => {
    const folder = temporaryFolder();
    await expectCode(() => native.openat(folder.fd, 'x'.repeat(256), 0), 'ENAMETOOLONG');
  });
});
