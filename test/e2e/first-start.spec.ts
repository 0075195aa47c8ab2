/** Against the real host: from nothing to a built sample, an artifact that is verified, and a store that is made. */
import { expect, test } from '@playwright/test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RealHost } from './real-host.ts';

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

test('first start: nothing is known, and a click later the sample is built', async ({ page }) => {
  await page.goto(host.url);
  await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
  expect(page.url()).not.toContain('token');
  await page.getByRole('button', { name: 'Try it with a sample' }).click();
  await expect(page.getByRole('article', { name: /^Store/ })).toBeVisible({ timeout: 30_000 });
  await page.getByRole('link', { name: 'Builds' }).click();
  await expect(page.getByRole('article', { name: /built|was there/ })).toBeVisible({ timeout: 60_000 });

  await page
    .getByRole('article', { name: /built|was there/ })
    .locator('a.mono')
    .click();
  await expect(page.getByRole('heading', { name: 'Identity' })).toBeVisible();
  await expect(page.getByRole('heading', { name: 'Tensors' })).toBeVisible();
  await page.getByRole('button', { name: 'Verify now' }).click();
  await expect(page.getByText('It is whole')).toBeVisible();

  await page.getByRole('button', { name: 'Remove…' }).click();
  await page.getByRole('button', { name: /^Remove \d/ }).click();
  await expect(page.getByText(/is removed: .* freed/)).toBeVisible();
  await expect(page.getByText('Nothing is in this store yet.').first()).toBeVisible();
  await page.getByRole('link', { name: 'Activity' }).click();
  await expect(
    page
      .getByRole('listitem')
      .filter({ hasText: /removed/i })
      .first(),
  ).toBeVisible();
});

test('a store is made: each thing that keeps it from being made is told at its field', async ({ page }) => {
  await page.goto(host.url);
  await page.getByRole('link', { name: 'Create a store' }).click();
  const create = page.getByRole('button', { name: 'Create store' });
  const path = page.getByLabel('Folder');
  await path.fill('no/slash');
  await expect(page.locator('#path-notes')).not.toBeEmpty();
  await expect(create).toBeDisabled();
  await path.fill('/proc/weights');
  await expect(page.locator('#path-notes .tone-bad').first()).toBeVisible();
  await path.fill(join(folder, 'store'));
  await expect(page.locator('#maxStoreBytes-notes')).toContainText(/limit/);
  await expect(page.getByText('will refuse to start')).toBeVisible();
  await page.getByLabel('Limit (required)').fill('many');
  await expect(page.locator('#maxStoreBytes-notes')).toContainText('not a size');
  await page.getByLabel('Limit (required)').fill('2 GiB');
  await expect(page.getByLabel('Policy document', { exact: true })).toContainText(
    '"build_admission":"serialized"',
  );
  await expect(page.getByLabel('Policy document', { exact: true })).toContainText('2147483648');
  await expect(create).toBeEnabled();
  await create.click();
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
  await expect(page.getByText('Nothing is in this store yet.').first()).toBeVisible();
});

test('an address without its token is not let in, and says what to do', async ({ page }) => {
  await page.goto(host.url.replace(/#.*/, ''));
  await expect(page.getByRole('heading', { name: 'This address needs its token' })).toBeVisible();
});
