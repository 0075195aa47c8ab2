/** Builds against the real host: two that wait for each other, one that is cancelled, one that fails; and other processes. */
import { expect, test, type Page } from '@playwright/test';
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { RealHost } from './real-host.ts';

const mib = 1024 ** 2;
let host: RealHost;
let folder: string;

test.beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weightroom-e2e-'));
  host = await RealHost.start(folder);
});

test.afterEach(async () => {
  await host.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Zeros, and the file sparse: as much to read, hash and write as real weights, and made at once. */
async function checkpoint(name: string, bytes: number): Promise<string> {
  const tensors = 8;
  const each = bytes / tensors;
  const header = Object.fromEntries(
    Array.from({ length: tensors }, (_, n) => [
      `model.layers.${n}.weight`,
      { dtype: 'BF16', shape: [each / 2], data_offsets: [n * each, (n + 1) * each] },
    ]),
  );
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const path = join(folder, name);
  await mkdir(path);
  const file = await open(join(path, 'model.safetensors'), 'w');
  await file.write(Buffer.concat([length, text]));
  await file.truncate(8 + text.length + bytes);
  await file.close();
  return path;
}

async function createStore(page: Page, limit: string): Promise<string> {
  const root = join(folder, 'store');
  await page.goto(host.url);
  await page.getByRole('link', { name: 'Create a store' }).click();
  await page.getByLabel('Folder').fill(root);
  await page.getByLabel('Limit (required)').fill(limit);
  await page.getByRole('button', { name: 'Create store' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
  return root;
}

async function startBuild(page: Page, path: string): Promise<void> {
  await page.evaluate(`location.hash = '#/builds/new'`);
  await page.getByLabel('Checkpoint folder').fill(path);
  await page.getByRole('button', { name: 'Look into it' }).click();
  await expect(page.getByText('8 tensors')).toBeVisible();
  await page.getByRole('button', { name: 'Start build' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Builds' })).toBeVisible();
}

test('builds wait while another process has admission, and say for whom; one is cancelled, one is built', async ({
  page,
}) => {
  const [first, second] = [await checkpoint('first', 1024 * mib), await checkpoint('second', 64 * mib)];
  const root = await createStore(page, '8 GiB');
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

test('what does not fit is told before it starts', async ({ page }) => {
  const path = await checkpoint('large', 512 * mib);
  await createStore(page, '100 MiB');
  await page.evaluate(`location.hash = '#/builds/new'`);
  await page.getByLabel('Checkpoint folder').fill(path);
  await page.getByRole('button', { name: 'Look into it' }).click();
  await expect(page.getByText('store_limit_exceeded')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Start build' })).toBeDisabled();
});

test('what the command line builds, and removes, appears by itself', async ({ page }) => {
  const root = await createStore(page, '8 GiB');
  const path = await checkpoint('elsewhere', 16 * mib);
  const launcher = join(import.meta.dirname, '../../src/cli/weightroom.mjs');
  await promisify(execFile)(process.execPath, [launcher, 'build', path, '--domain', root], { env: host.env });
  const table = page.getByRole('table', { name: 'Artifacts' });
  await expect(table).toHaveAttribute('aria-rowcount', '2');
  await page.getByRole('region', { name: 'Artifacts, scrollable' }).locator('a').first().click();
  await expect(page.getByRole('heading', { name: 'Identity' })).toBeVisible();
  const key = /[0-9a-f]{64}/.exec(page.url())?.[0] as string;
  await promisify(execFile)(process.execPath, [launcher, 'remove', root, key], { env: host.env });
  await page.goBack();
  await expect(table).toHaveAttribute('aria-rowcount', '1');
});

test('the host is killed while the page is open, and started again', async ({ page }) => {
  await createStore(page, '8 GiB');
  await host.stop('SIGKILL');
  await expect(page.getByText('The connection to Weightroom is lost.')).toBeVisible();
  const { port } = new URL(host.url);
  host = await RealHost.start(folder, Number(port));
  await page.goto(host.url);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await expect(page.getByRole('link', { name: 'store', exact: true }).first()).toBeVisible();
});
