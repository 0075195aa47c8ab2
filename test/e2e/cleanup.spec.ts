/** Clean up against the real host: what is left, taken out of service and in use, on a real disk. */
import { expect, test } from '@playwright/test';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { lockStates } from '../../src/store/lock-holders.ts';
import { artifactLock, quarantineName } from '../../src/store/paths.ts';
import { mib, RealDesk } from './real-desk.ts';

let desk: RealDesk;
let worker: ChildProcess | null;

test.beforeEach(async () => {
  desk = await RealDesk.start();
  worker = null;
});

test.afterEach(async () => {
  if (worker !== null && worker.exitCode === null) {
    const ended = once(worker, 'exit');
    worker.kill('SIGKILL');
    await ended;
  }
  await desk.stop();
});

/** Of a model that is called as its checkpoint's folder. */
async function build(root: string, checkpoint: string, revision: string): Promise<string> {
  const before = new Set(await readdir(join(root, 'artifacts')));
  const model = ['--model-id', `lab/${basename(checkpoint)}`, '--revision', revision];
  await desk.weightroom('build', checkpoint, '--domain', root, ...model);
  return (await readdir(join(root, 'artifacts'))).find((key) => !before.has(key)) as string;
}

/** As the store does it with what failed a check. */
async function quarantine(root: string, key: string): Promise<void> {
  const [from, to] = [
    join(root, 'artifacts', key),
    join(root, 'quarantine', quarantineName(key, 'validation_failure')),
  ];
  await chmod(from, 0o755);
  await rename(from, to);
  await chmod(to, 0o555);
}

/** What a worker holds that maps the artifact. */
async function lease(root: string, key: string): Promise<ChildProcess> {
  const name = artifactLock(key);
  const holder = spawn('flock', ['--no-fork', '--shared', join(root, 'locks', name), 'sleep', '50']);
  const isHeld = async (): Promise<boolean> =>
    (await lockStates(root)).some((lock) => lock.name === name && lock.state === 'held');
  await expect.poll(isHeld, { timeout: 20_000, intervals: [20] }).toBe(true);
  return holder;
}

test('plan, restore, apply: the leftover goes, what is whole comes back, what is used stays', async ({
  page,
}) => {
  const checkpoint = await desk.checkpoint('small', 16 * mib);
  const root = await desk.createStore(page);
  const older = await build(root, checkpoint, 'r1');
  await build(root, checkpoint, 'r2');
  const whole = await build(root, await desk.checkpoint('other', 8 * mib), 'r1');
  await quarantine(root, whole);
  const staged = join(root, 'tmp', `${'5e'.repeat(32)}.4194304.${'0'.repeat(32)}`);
  await mkdir(staged);
  await writeFile(join(staged, 'weights-00001.safetensors'), Buffer.alloc(3 * mib));
  worker = await lease(root, older);

  await page.getByRole('link', { name: 'Clean up', exact: true }).last().click();
  await expect(page.getByRole('heading', { level: 1, name: 'Clean up' })).toBeVisible();
  const leftovers = page.getByRole('table', { name: 'Leftovers of dead builds' });
  await expect(leftovers).toContainText('3.0 MiB');
  await expect(page.getByRole('switch', { name: 'Unused artifacts' })).toBeDisabled();
  await expect(page.getByText(/Not offered, because .* no history of leases/)).toBeVisible();

  await page.getByRole('switch', { name: 'Superseded artifacts' }).click();
  const superseded = page.getByRole('table', { name: 'Superseded artifacts' });
  await expect(superseded).toContainText(`is in use by process ${worker.pid}`);
  await expect(superseded).toContainText('Stays');

  await page.getByRole('button', { name: `Restore ${whole.slice(0, 12)}` }).click();
  await expect(page.getByText(`${whole.slice(0, 12)} is back in service.`)).toBeVisible({ timeout: 20_000 });
  expect(await readdir(join(root, 'quarantine'))).toEqual([]);

  await page.getByRole('button', { name: /^Remove 1 entry/ }).click();
  await expect(page.getByText('1 entry removed: 3.0 MiB.').first()).toBeVisible();
  await expect(leftovers).toContainText('Removed');
  expect(await readdir(join(root, 'tmp'))).toEqual([]);
  expect((await readdir(join(root, 'artifacts'))).length).toBe(3);

  await page.getByRole('link', { name: 'Activity' }).click();
  await expect(page.getByText(/Cleaned up .*: 1 entry removed, 3.0 MiB/)).toBeVisible();
});
