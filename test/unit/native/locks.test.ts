import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

import { native } from '../../../native/index.ts';
import { expectCode, opened, temporaryFolder } from './support.ts';

const holder = fileURLToPath(new URL('./lock-holder.ts', import.meta.url));

async function startHolder(path: string, mode: 'exclusive' | 'shared'): Promise<[ChildProcess, string]> {
  const child = spawn(process.execPath, [holder, path, mode], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  return [child, said.toString().trim()];
}

async function end(child: ChildProcess, how: () => void): Promise<void> {
  const ended = once(child, 'exit');
  how();
  await ended;
}

test('one process keeps another out, until it lets go', async () => {
  const folder = temporaryFolder();
  writeFileSync(folder.at('lock'), '');
  const fd = opened(folder.at('lock'), 2);

  const [first, said] = await startHolder(folder.at('lock'), 'exclusive');
  expect(said).toBe('held');
  expect([native.flockTry(fd, true), native.flockTry(fd, false)]).toEqual([false, false]);
  await end(first, () => first.stdin?.end());
  expect(native.flockTry(fd, true)).toBe(true);

  const [second, refused] = await startHolder(folder.at('lock'), 'shared');
  expect(refused).toBe('refused');
  await end(second, () => second.stdin?.end());
  native.flockRelease(fd);

  const [third, shared] = await startHolder(folder.at('lock'), 'shared');
  expect(shared).toBe('held');
  expect([native.flockTry(fd, true), native.flockTry(fd, false)]).toEqual([false, true]);
  await end(third, () => third.kill('SIGKILL'));
  expect(native.flockTry(fd, true)).toBe(true);
});

test('two descriptions in one process exclude each other too', () => {
  const folder = temporaryFolder();
  writeFileSync(folder.at('lock'), '');
  const [one, two] = [opened(folder.at('lock')), opened(folder.at('lock'))];
  expect([native.flockTry(one, true), native.flockTry(two, true)]).toEqual([true, false]);
  native.flockRelease(one);
  expect(native.flockTry(two, true)).toBe(true);
});

test('a descriptor that is not open', async () => {
  await expectCode(() => native.flockTry(2 ** 31 - 1, true), 'EBADF');
  await expectCode(() => native.flockRelease(2 ** 31 - 1), 'EBADF');
});
