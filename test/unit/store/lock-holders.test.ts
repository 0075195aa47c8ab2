/** Who holds a lock, from lock tables as kernels write them on file systems that this machine does not have. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FileLock, LockTimeout, withoutWaiting } from '../../../src/store/lock.ts';
import { holdersOfFile, lockStates, parseLocks } from '../../../src/store/lock-holders.ts';
import { native } from '../../../native/index.ts';
import { store, temporaryFolder, type Scenario } from '../../fixtures/store.ts';

const everybody = 'pid:[4026531836]';
const container = 'pid:[4026532999]';

interface Machine {
  readonly locks?: string;
  readonly mounts?: string;
  readonly pidNamespace?: string;
  readonly processes?: Readonly<Record<number, { cmdline?: string; comm?: string; stat?: string }>>;
}

/** A /proc with just what is looked at. */
function procOf({ locks = '', mounts = '', pidNamespace = everybody, processes = {} }: Machine): string {
  const proc = temporaryFolder();
  writeFileSync(join(proc, 'locks'), locks);
  mkdirSync(join(proc, 'self/ns'), { recursive: true });
  writeFileSync(join(proc, 'self/mountinfo'), mounts);
  symlinkSync(pidNamespace, join(proc, 'self/ns/pid'));
  for (const [pid, files] of Object.entries(processes)) {
    mkdirSync(join(proc, pid));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(proc, pid, name), text);
  }
  return proc;
}

async function domainWithLock(): Promise<{
  scenario: Scenario;
  name: string;
  inode: bigint;
  device: string;
}> {
  const scenario = await store().artifact('a').made();
  const name = `${scenario.key('a')}.artifact.lock`;
  const stat = native.lstat(scenario.path('locks', name));
  const [major, minor] = [(stat.dev >> 8n) & 0xfffn, (stat.dev & 0xffn) | ((stat.dev >> 12n) & 0xffffff00n)];
  return { scenario, name, inode: stat.ino, device: `${hex(major)}:${hex(minor)}` };
}

function hex(value: bigint): string {
  return value.toString(16).padStart(2, '0');
}

async function stateIn(scenario: Scenario, name: string, machine: Machine) {
  return (await lockStates(scenario.root, procOf(machine))).find((state) => state.name === name);
}

test('the rows of the table that are flocks, waiters among them', () => {
  const rows = parseLocks(
    [
      '1: FLOCK  ADVISORY  WRITE 4242 fd:01:131074 0 EOF',
      '1: -> FLOCK  ADVISORY  WRITE 4243 fd:01:131074 0 EOF',
      '2: POSIX  ADVISORY  WRITE 17 fd:01:131075 0 EOF',
      '3: OFDLCK ADVISORY  READ -1 fd:01:131076 0 EOF',
      '4: FLOCK  ADVISORY  READ 0 00:1a:7 0 EOF',
      '5: LEASE  ACTIVE    READ 9 fd:01:1 0 EOF',
      '12345: FLOCK  ADVISORY  READ  5 103:0a:18446744073709551615 0 EOF',
      'rubbish',
      '',
    ].join('\n'),
  );
  expect(rows).toEqual([
    { pid: 4242, mode: 'exclusive', file: '253:1:131074', waiting: false },
    { pid: 4243, mode: 'exclusive', file: '253:1:131074', waiting: true },
    { pid: 0, mode: 'shared', file: '0:26:7', waiting: false },
    { pid: 5, mode: 'shared', file: '259:10:18446744073709551615', waiting: false },
  ]);
});

describe('a lock', () => {
  test('that nobody has is free', async () => {
    const { scenario, name } = await domainWithLock();
    expect(await stateIn(scenario, name, {})).toMatchObject({ state: 'free', holders: [], waiters: [] });
  });

  test('is named by the device of its file, with holder, command and waiters', async () => {
    const { scenario, name, inode, device } = await domainWithLock();
    const state = await stateIn(scenario, name, {
      locks: [
        `1: FLOCK  ADVISORY  READ 11 ${device}:${inode} 0 EOF`,
        `2: FLOCK  ADVISORY  READ 12 ${device}:${inode} 0 EOF`,
        `2: -> FLOCK  ADVISORY  WRITE 13 ${device}:${inode} 0 EOF`,
        `3: FLOCK  ADVISORY  WRITE 14 ${device}:${inode + 1n} 0 EOF`,
        `4: POSIX  ADVISORY  WRITE 15 ${device}:${inode} 0 EOF`,
      ].join('\n'),
      processes: {
        11: { cmdline: 'python3\0-m\0vllm\0', stat: `11 (a ) b) S ${'0 '.repeat(18)}777 0` },
        12: { cmdline: '', comm: 'kworker\n', stat: 'unreadable' },
      },
    });
    expect(state).toMatchObject({
      purpose: 'artifact',
      key: scenario.key('a'),
      state: 'held',
      holders: [
        { pid: 11, mode: 'shared', command: 'python3 -m vllm', startTicks: '777' },
        { pid: 12, mode: 'shared', command: 'kworker', startTicks: null },
      ],
      waiters: [{ pid: 13, mode: 'exclusive', command: 'not visible' }],
    });
  });

  test("is named by the mount's device where that differs: overlay, btrfs", async () => {
    const { scenario, name, inode } = await domainWithLock();
    const mounts = `40 22 0:77 / ${scenario.root.replaceAll(' ', '\\040')} rw - btrfs /dev/sda rw\n`;
    const locks = `1: FLOCK  ADVISORY  WRITE 21 00:4d:${inode} 0 EOF`;
    expect(await stateIn(scenario, name, { locks, mounts })).toMatchObject({
      state: 'held',
      holders: [{ pid: 21, mode: 'exclusive' }],
    });
    expect(await stateIn(scenario, name, { locks })).toMatchObject({ state: 'free' });
  });

  test('of the same inode number on another device is another lock', async () => {
    const { scenario, name, inode } = await domainWithLock();
    const locks = `1: FLOCK  ADVISORY  WRITE 21 ff:ff:${inode} 0 EOF`;
    expect(await stateIn(scenario, name, { locks })).toMatchObject({ state: 'free' });
  });
});

describe('in another PID namespace', () => {
  test('a lock without a visible holder is tried, and held with nobody to name', async () => {
    const { scenario, name } = await domainWithLock();
    const held = await FileLock.shared(scenario.path('locks', name), withoutWaiting);
    const machine = { pidNamespace: container };
    expect(await stateIn(scenario, name, machine)).toMatchObject({ state: 'held', holders: [] });
    held.release();
    expect(await stateIn(scenario, name, machine)).toMatchObject({ state: 'free', holders: [] });
    // Having been tried, it is free again.
    (await FileLock.exclusive(scenario.path('locks', name), withoutWaiting)).release();
  });

  test('a holder that the table shows as 0 is not visible', async () => {
    const { scenario, name, inode, device } = await domainWithLock();
    const locks = `1: FLOCK  ADVISORY  WRITE 0 ${device}:${inode} 0 EOF`;
    const state = await stateIn(scenario, name, { locks, pidNamespace: container });
    expect(state).toMatchObject({ state: 'held', holders: [{ pid: 0, command: 'not visible' }] });
  });

  test('everybody to be seen: a lock is never tried', async () => {
    const { scenario, name } = await domainWithLock();
    const held = await FileLock.exclusive(scenario.path('locks', name), withoutWaiting);
    // This table knows of no lock at all; had it been tried, it would be held.
    expect(await stateIn(scenario, name, { pidNamespace: everybody })).toMatchObject({ state: 'free' });
    held.release();
  });
});

test('all lock files of a domain, and nothing else in the folder', async () => {
  const scenario = await store({ admission: 'serialized', maxStoreBytes: 1e6 }).artifact('a').made();
  for (const name of [
    'notes.txt',
    `${scenario.key('a')}.other.lock`,
    `${scenario.key('a')}.build.lock.bak`,
  ]) {
    writeFileSync(scenario.path('locks', name), '');
  }
  expect(
    (await lockStates(scenario.root)).map(({ name, purpose }) => [
      name.replace(/^[0-9a-f]{64}/, 'K'),
      purpose,
    ]),
  ).toEqual([
    ['K.artifact.lock', 'artifact'],
    ['K.build.lock', 'build'],
    ['domain-build.lock', 'admission'],
    ['domain-init.lock', 'init'],
  ]);
});

test('this process sees its own locks by name', async () => {
  const { scenario, name } = await domainWithLock();
  const path = scenario.path('locks', name);
  const held = await FileLock.shared(path, withoutWaiting);
  expect(holdersOfFile(path)).toMatchObject([{ pid: process.pid, mode: 'shared' }]);
  held.release();
  expect(holdersOfFile(path)).toEqual([]);
  expect(holdersOfFile(join(scenario.root, 'nothing'))).toEqual([]);
});

describe('taking a lock', () => {
  test('one attempt is made even when the deadline has passed', async () => {
    const path = join(temporaryFolder(), 'lock');
    (await FileLock.exclusive(path, { deadline: 0 })).release();
    const held = await FileLock.exclusive(path, { deadline: 0 });
    await expect(FileLock.shared(path, { deadline: 0 })).rejects.toThrow(LockTimeout);
    expect(held.released).toBe(false);
    held.release();
    held.release();
    expect(held.released).toBe(true);
  });

  test('shared locks share, and an exclusive one waits for both', async () => {
    const path = join(temporaryFolder(), 'lock');
    const [one, two] = [
      await FileLock.shared(path, withoutWaiting),
      await FileLock.shared(path, withoutWaiting),
    ];
    const waiting = FileLock.exclusive(path, { deadline: null });
    one.release();
    await expect(FileLock.exclusive(path, withoutWaiting)).rejects.toThrow('is held by another process');
    two.release();
    (await waiting).release();
  });

  test('a wait ends when its signal fires, with its reason and without the lock', async () => {
    const path = join(temporaryFolder(), 'lock');
    const held = await FileLock.exclusive(path, withoutWaiting);
    const cancel = new AbortController();
    const waiting = FileLock.exclusive(path, { deadline: null, signal: cancel.signal });
    cancel.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    held.release();
    (await FileLock.exclusive(path, withoutWaiting)).release();
  });

  test('a link in the place of the file is refused, and its target left alone', async () => {
    const folder = temporaryFolder();
    symlinkSync(join(folder, 'target'), join(folder, 'lock'));
    await expect(FileLock.exclusive(join(folder, 'lock'), withoutWaiting)).rejects.toMatchObject({
      code: 'ELOOP',
    });
    expect(() => native.lstat(join(folder, 'target'))).toThrow('ENOENT');
  });
});

test('the command line of a process that waits in the kernel is not read', async () => {
  const scenario = await store().artifact('weights').made();
  const path = scenario.path('locks', `${scenario.key('weights')}.artifact.lock`);
  const { dev, ino } = statSync(path);
  const device = `${(dev >> 8).toString(16).padStart(2, '0')}:${(dev & 0xff).toString(16).padStart(2, '0')}`;
  const proc = procOf({
    locks: `1: FLOCK  ADVISORY  READ 77 ${device}:${ino} 0 EOF\n`,
    processes: { 77: { comm: 'python3\n', stat: `77 (python3) D ${'0 '.repeat(18)}5 0` } },
  });
  // Whoever reads a pipe that nobody writes to waits for ever, as with the memory of a stuck process.
  execFileSync('mkfifo', [join(proc, '77', 'cmdline')]);
  mkdirSync(join(proc, '77', 'task', '78'), { recursive: true });
  writeFileSync(join(proc, '77', 'task', '78', 'stat'), '78 (python3) D 1');
  expect(holdersOfFile(path, proc)).toMatchObject([{ pid: 77, command: 'python3' }]);
  writeFileSync(join(proc, '77', 'task', '78', 'stat'), '78 (python3) S 1');
  expect(holdersOfFile(path, proc, 'name')).toMatchObject([{ pid: 77, command: 'python3' }]);
});
