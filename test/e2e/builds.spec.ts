/** Builds against the real host: waiting for admission, progress, cancelled, failed and tried again. */
import { expect, test } from '@playwright/test';
import { spawn } from 'node:child_process';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { lockStates } from '../../src/store/lock-holders.ts';
import { lookInto, mib, RealDesk, startBuild } from './real-desk.ts';

let desk: RealDesk;

test.beforeEach(async () => {
  desk = await RealDesk.start();
});

test.afterEach(async () => await desk.stop());

test('builds wait while somebody has admission, and say for whom; one is cancelled, one is built', async ({
  page,
}) => {
  const first = await desk.checkpoint('first', 1024 * mib);
  const second = await desk.checkpoint('second', 64 * mib);
  const root = await desk.createStore(page);
  // Without a shell in between, so that who ends it ends it: flock keeps the lock for as long as its child lives.
  const holder = spawn('flock', ['--no-fork', join(root, 'locks', 'domain-build.lock'), 'sleep', '50']);
  await startBuild(page, second);
  await startBuild(page, first);
  await expect(page.getByText(/waiting for admission/)).toHaveCount(2, { timeout: 20_000 });
  await expect(page.getByText(`Admission is held by process ${holder.pid} (`).first()).toBeVisible();
  await page.getByRole('button', { name: 'Cancel the build of second' }).click();
  await expect(page.getByRole('article', { name: 'Build of second, cancelled' })).toBeVisible();
  holder.kill();
  await expect(page.getByRole('progressbar').first()).toBeVisible({ timeout: 20_000 });
  await expect(page.getByRole('article', { name: 'Build of first, built' })).toBeVisible({ timeout: 50_000 });
});

test('a build of the command line comes first, one of the page after it, and both are built', async ({
  page,
}) => {
  const [theirs, ours] = [
    await desk.checkpoint('theirs', 256 * mib),
    await desk.checkpoint('ours', 16 * mib),
  ];
  const root = await desk.createStore(page);
  const other = desk.startWeightroom('build', theirs, '--domain', root);
  const pid = await admissionHolder(root);
  // Stopped where it stands, so that it is still there when the other one comes.
  process.kill(pid, 'SIGSTOP');
  try {
    await startBuild(page, ours);
    await expect(page.getByText(`Admission is held by process ${pid} (`)).toBeVisible({ timeout: 20_000 });
    await expect(page.getByText(`process ${pid}`, { exact: false }).first()).toBeVisible();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  await expect(page.getByRole('article', { name: 'Build of ours, built' })).toBeVisible({ timeout: 50_000 });
  await page.getByRole('link', { name: 'store', exact: true }).first().click();
  await expect(page.getByRole('table', { name: 'Artifacts' })).toHaveAttribute('aria-rowcount', '3');
  expect(other.exitCode).toBe(0);
});

/** As soon as somebody holds it. */
async function admissionHolder(root: string): Promise<number> {
  const holder = async (): Promise<number> => {
    const held = (await lockStates(root)).find(({ purpose }) => purpose === 'admission');
    return held?.holders[0]?.pid ?? 0;
  };
  await expect.poll(holder, { timeout: 20_000, intervals: [20] }).toBeGreaterThan(0);
  return await holder();
}

test('a build that runs is cancelled, and leaves nothing behind', async ({ page }) => {
  const checkpoint = await desk.checkpoint('large', 4096 * mib);
  const root = await desk.createStore(page, '20 GiB');
  await startBuild(page, checkpoint);
  const bar = page.getByRole('progressbar', { name: 'Build of large' });
  await expect(bar).toBeVisible({ timeout: 30_000 });
  await expect(page.getByText(/[KMG]iB\/s/).first()).toBeVisible({ timeout: 30_000 });
  await page.getByRole('button', { name: 'Cancel the build of large' }).click();
  await expect(page.getByRole('article', { name: 'Build of large, cancelled' })).toBeVisible({
    timeout: 20_000,
  });
  await expect(page.getByText('Left behind')).toHaveCount(0);
  expect(await readdir(join(root, 'tmp'))).toEqual([]);
  expect(await readdir(join(root, 'artifacts'))).toEqual([]);
});

test('a build that fails says why, and is built when it is tried again after that was put right', async ({
  page,
}) => {
  const checkpoint = await desk.checkpoint('moved', 16 * mib);
  await desk.createStore(page);
  await lookInto(page, checkpoint);
  await expect(page.getByText('8 tensors')).toBeVisible();
  const file = join(checkpoint, 'model.safetensors');
  await rename(file, `${file}.away`);
  await page.getByRole('button', { name: 'Start build' }).click();
  const card = page.getByRole('article', { name: /^Build of moved, failed/ });
  await expect(card).toBeVisible({ timeout: 20_000 });
  await expect(card.locator('.why')).toContainText(checkpoint);
  await expect(card.getByRole('button', { name: 'Copy details' })).toBeVisible();
  await rename(`${file}.away`, file);
  await card.getByRole('button', { name: 'Retry' }).click();
  await expect(page.getByRole('article', { name: 'Build of moved, built' })).toBeVisible({ timeout: 30_000 });
  await expect(card).toHaveCount(0);
});

test('what does not fit is told before it starts', async ({ page }) => {
  const path = await desk.checkpoint('large', 512 * mib);
  await desk.createStore(page, '100 MiB');
  await lookInto(page, path);
  await expect(page.getByText('store_limit_exceeded')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Start build' })).toBeDisabled();
});
