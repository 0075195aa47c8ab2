/** What other processes do to a store and to the host shows on an open page. */
import { expect, test, type Page } from '@playwright/test';
import { execFile } from 'node:child_process';
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
