import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { chown } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

import { native } from '../../../native/index.ts';
import { expectCode, type Folder, opened, temporaryFolder } from './support.ts';

const removal = fileURLToPath(new URL('./unprivileged-removal.ts', import.meta.url));
const openDescriptors = () => readdirSync('/proc/self/fd').length;
const allocated = (...paths: string[]) => paths.reduce((sum, path) => sum + lstatSync(path).blocks * 512, 0);

/** A chain of directories, each called `d` and with one file in it. */
function deepTree(folder: Folder, name: string, depth: number): void {
  native.mkdirat(folder.fd, name, 0o700);
  let current = native.openat(folder.fd, name, 0);
  for (let i = 0; i < depth; i++) {
    native.mkdirat(current, 'd', 0o700);
    const below = native.openat(current, 'd', 0);
    native.close(native.openat(below, 'file', 0o101, 0o444));
    native.close(current);
    current = below;
  }
  native.close(current);
}

describe('listTree and treeBytes', () => {
  test('sums over files, links and directories', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('a', 'b', 'c'), { recursive: true });
    writeFileSync(folder.at('a', 'one'), new Uint8Array(10_000));
    writeFileSync(folder.at('a', 'b', 'c', 'two'), new Uint8Array(5));
    linkSync(folder.at('a', 'one'), folder.at('a', 'b', 'again'));
    symlinkSync('/', folder.at('a', 'root'));
    writeFileSync(folder.at('sparse'), '');
    truncateSync(folder.at('sparse'), 2 ** 40);
    symlinkSync('a', folder.at('link'));
    mkdirSync(folder.at('empty'));

    const listed = await native.listTree(folder.fd);
    const known = (name: string, bytes: number, files: number, allocatedBytes: number) => {
      const [freeableBytes, signature] = [expect.any(Number), expect.any(BigInt)] as [number, bigint];
      const stat = native.fstatat(folder.fd, name);
      return { name, stat, bytes, files, allocatedBytes, freeableBytes, signature };
    };
    const inA = ['', 'one', 'root', 'b', 'b/again', 'b/c', 'b/c/two'].map((path) => folder.at('a', path));
    expect(listed.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
      known('a', 20_005, 3, allocated(...inA)),
      known('empty', 0, 0, allocated(folder.at('empty'))),
      known('link', 0, 0, allocated(folder.at('link'))),
      known('sparse', 2 ** 40, 1, allocated(folder.at('sparse'))),
    ]);
    expect(await native.treeBytes(folder.fd)).toBe(2 ** 40 + 20_005);
    // The caller's position in the directory has not moved, and a second look sees the same.
    expect(await native.listTree(folder.fd)).toHaveLength(4);
  });

  test('a file with a link elsewhere is not freed by removing one of them', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('a'));
    writeFileSync(folder.at('a', 'alone'), new Uint8Array(50_000));
    writeFileSync(folder.at('a', 'shared'), new Uint8Array(70_000));
    linkSync(folder.at('a', 'shared'), folder.at('elsewhere'));
    const [a, elsewhere] = (await native.listTree(folder.fd)).toSorted((x, y) => (x.name < y.name ? -1 : 1));
    expect(a?.freeableBytes).toBe(allocated(folder.at('a'), folder.at('a', 'alone')));
    expect(elsewhere).toMatchObject({ freeableBytes: 0, allocatedBytes: allocated(folder.at('elsewhere')) });
  });

  test('the signature of a tree changes with anything in it, and only then', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('a', 'b'), { recursive: true });
    const file = folder.at('a', 'b', 'file');
    writeFileSync(file, 'one');
    const signature = async (): Promise<bigint | undefined> =>
      (await native.listTree(folder.fd)).find(({ name }) => name === 'a')?.signature;
    const seen = new Set([await signature()]);
    expect(await signature()).toBe([...seen][0]);
    writeFileSync(folder.at('beside'), '');
    expect(await signature()).toBe([...seen][0]);
    const changes = [
      () => writeFileSync(file, 'two'),
      // Written, and its time put back: only the ctime tells.
      () => (writeFileSync(file, 'six'), utimesSync(file, 1, 1)),
      () => (writeFileSync(file, 'ten'), utimesSync(file, 1, 1)),
      () => chmodSync(file, 0o600),
      () => renameSync(file, `${file}2`),
      () => linkSync(`${file}2`, folder.at('outside')),
      () => rmSync(`${file}2`),
    ];
    for (const [index, change] of changes.entries()) {
      // The kernel's clock for file times ticks every few milliseconds: until it has, two writes can look alike.
      const before = statSync(folder.at('beside'), { bigint: true }).ctimeNs;
      do writeFileSync(folder.at('beside'), '');
      while (statSync(folder.at('beside'), { bigint: true }).ctimeNs === before);
      change();
      seen.add(await signature());
      expect(seen.size).toBe(index + 2);
    }
  });

  test('trees that are deeper than there are descriptors', async () => {
    const folder = temporaryFolder();
    deepTree(folder, 'deep', 3000);
    const before = openDescriptors();
    expect((await native.listTree(folder.fd))[0]).toMatchObject({ name: 'deep', files: 3000 });
    await native.removeTree(folder.fd, 'deep');
    expect(readdirSync(folder.path)).toEqual([]);
    expect(openDescriptors()).toBe(before);
  });

  test('only the directory itself can make them fail', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), '');
    const file = opened(folder.at('file'));
    await expectCode(() => native.listTree(file), 'ENOTDIR');
    await expectCode(() => native.treeBytes(2 ** 31 - 1), 'EBADF');
  });
});

describe('removeTree', () => {
  test('single entries, and nothing', async () => {
    const folder = temporaryFolder();
    writeFileSync(folder.at('file'), '');
    symlinkSync('nowhere', folder.at('broken'));
    mkdirSync(folder.at('empty'));
    for (const name of ['file', 'broken', 'empty', 'nothing', 'file'])
      await native.removeTree(folder.fd, name);
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('links are removed and what they lead to is not', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('kept', 'inside'), { recursive: true });
    writeFileSync(folder.at('kept', 'inside', 'file'), 'precious');
    mkdirSync(folder.at('tree', 'below'), { recursive: true });
    const links: Record<string, string> = {
      parent: '..',
      itself: 'itself',
      here: '.',
      elsewhere: folder.at('kept'),
      sibling: '../kept',
      file: '../kept/inside/file',
      below: '../tree',
    };
    for (const [name, to] of Object.entries(links)) {
      symlinkSync(to, join(folder.path, 'tree', name === 'below' ? 'below/up' : name));
    }
    symlinkSync('kept', folder.at('top'));
    await native.removeTree(folder.fd, 'tree');
    await native.removeTree(folder.fd, 'top');
    expect(readdirSync(folder.path)).toEqual(['kept']);
    expect(readdirSync(folder.at('kept', 'inside'))).toEqual(['file']);
  });

  test('a directory that is filled while it is being removed', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('tree'));
    for (let i = 0; i < 500; i++) writeFileSync(folder.at('tree', `file-${i}`), '');
    const removed = native.removeTree(folder.fd, 'tree');
    try {
      for (let i = 0; i < 50; i++) mkdirSync(folder.at('tree', `more-${i}`));
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENOENT' });
    }
    await removed;
    expect(existsSync(folder.at('tree'))).toBe(false);
  });

  test('the caller may close its descriptor at once', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('tree', 'below'), { recursive: true });
    const fd = native.open(folder.path, 0);
    const removed = native.removeTree(fd, 'tree');
    native.close(fd);
    await removed;
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('a descriptor that is not open', async () => {
    await expectCode(() => native.removeTree(2 ** 31 - 1, 'name'), 'EBADF');
  });
});

describe('removeTree without privileges', () => {
  const remove = (folder: Folder, name: string) =>
    execFileSync(process.execPath, [removal, folder.path, name], { encoding: 'utf8' }).trim();

  /** Gives a tree to whom the removing process will be. */
  async function handOver(folder: Folder, ...paths: string[]): Promise<void> {
    if (process.getuid?.() !== 0) return;
    for (const path of [folder.path, ...paths]) await chown(path, 65534, 65534);
  }

  test('directories and files of every kind of permission', async () => {
    const folder = temporaryFolder();
    const modes = [0o000, 0o111, 0o222, 0o333, 0o444, 0o555, 0o666, 0o777];
    const paths = [folder.at('tree')];
    mkdirSync(folder.at('tree'));
    for (const outer of modes) {
      const directory = folder.at('tree', `directory-${outer}`);
      const inner = join(directory, 'inner');
      const file = join(inner, 'file');
      mkdirSync(inner, { recursive: true });
      writeFileSync(file, 'x', { mode: 0o444 });
      paths.push(directory, inner, file);
    }
    await handOver(folder, ...paths);
    for (const mode of modes) {
      chmodSync(folder.at('tree', `directory-${mode}`, 'inner'), mode);
      chmodSync(folder.at('tree', `directory-${mode}`), mode);
    }
    chmodSync(folder.at('tree'), 0o555);
    expect(remove(folder, 'tree')).toBe('removed');
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('a read-only directory outside stays as it is when a link leads to it', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('outside'));
    mkdirSync(folder.at('tree'));
    symlinkSync('../outside', folder.at('tree', 'link'));
    await handOver(folder, folder.at('outside'), folder.at('tree'));
    chmodSync(folder.at('outside'), 0o555);
    chmodSync(folder.at('tree'), 0o555);
    expect(remove(folder, 'tree')).toBe('removed');
    expect(lstatSync(folder.at('outside')).mode & 0o7777).toBe(0o555);
  });

  test.runIf(process.getuid?.() === 0)('what belongs to somebody else is refused', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder.at('tree', 'theirs'), { recursive: true });
    writeFileSync(folder.at('tree', 'theirs', 'file'), '');
    await handOver(folder, folder.at('tree'));
    expect(remove(folder, 'tree')).toBe('EACCES unlinkat');
    chmodSync(folder.at('tree', 'theirs'), 0o700);
    expect(remove(folder, 'tree')).toBe('EPERM chmod');
    expect(existsSync(folder.at('tree', 'theirs', 'file'))).toBe(true);
  });
});
