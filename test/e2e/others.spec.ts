/** Against the real host: what other processes and other windows do shows by itself, and a host that is killed. */
import { expect, test } from '@playwright/test';
import { goTo, mib, RealDesk, startBuild } from './real-desk.ts';

let desk: RealDesk;

test.beforeEach(async () => {
  desk = await RealDesk.start();
});

test.afterEach(async () => await desk.stop());

test('what the command line builds, and removes, appears by itself', async ({ page }) => {
  const root = await desk.createStore(page);
  const path = await desk.checkpoint('elsewhere', 16 * mib);
  await desk.weightroom('build', path, '--domain', root);
  const table = page.getByRole('table', { name: 'Artifacts' });
  await expect(table).toHaveAttribute('aria-rowcount', '2');
  await page.getByRole('region', { name: 'Artifacts, scrollable' }).locator('a').first().click();
  await expect(page.getByRole('heading', { name: 'Identity' })).toBeVisible();
  const key = /[0-9a-f]{64}/.exec(page.url())?.[0] as string;
  await desk.weightroom('remove', root, key);
  // The page of what is gone says so and offers nothing that needs it; what was seen stays readable.
  await expect(page.getByText('This artifact was removed')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Remove…' })).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Verify now' })).toBeDisabled();
  await expect(page.getByRole('heading', { name: 'Identity' })).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  // The same checkpoint is the same key: built again, it is there again.
  await desk.weightroom('build', path, '--domain', root);
  await expect(page.getByText('This artifact was removed')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Verify now' })).toBeEnabled();
  await desk.weightroom('remove', root, key);
  await page.getByRole('link', { name: 'Back to the store' }).click();
  await expect(table).toHaveAttribute('aria-rowcount', '1');
});

test('two windows with one artifact: one removes it, while the other is about to', async ({ page }) => {
  const root = await desk.createStore(page);
  await desk.weightroom('build', await desk.checkpoint('shared', 16 * mib), '--domain', root);
  await page.getByRole('region', { name: 'Artifacts, scrollable' }).locator('a').first().click();
  const other = await page.context().newPage();
  await other.goto(page.url());
  for (const window of [page, other]) await window.getByRole('button', { name: 'Remove…' }).click();
  await page.getByRole('button', { name: /^Remove \d/ }).click();
  await expect(page.getByText(/is removed: .* freed/)).toBeVisible();
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeFocused();
  await expect(other.getByText('This artifact was removed')).toBeVisible();
  await expect(other.getByRole('dialog')).toHaveCount(0);
  await expect(other.getByRole('heading', { level: 1 })).toBeFocused();
});

test('two windows: a build that one starts runs in the other, which cancels it', async ({ page }) => {
  const checkpoint = await desk.checkpoint('large', 4096 * mib);
  await desk.createStore(page, '20 GiB');
  const other = await page.context().newPage();
  // The cookie is the browser's: a second window needs no token.
  await other.goto(desk.url.replace(/#.*/, ''));
  await goTo(other, '#/builds');
  await expect(other.getByText('Nothing is being built')).toBeVisible();
  await startBuild(page, checkpoint);
  const cancel = other.getByRole('button', { name: 'Cancel the build of large' });
  await expect(cancel).toBeVisible();
  await cancel.click();
  for (const window of [page, other]) {
    const card = window.getByRole('article', { name: 'Build of large, cancelled' });
    await expect(card).toBeVisible({ timeout: 20_000 });
  }
});

test('the host is killed while the page is open, and started again: each is said, and nothing is lost', async ({
  page,
}) => {
  await desk.createStore(page);
  await desk.kill();
  await expect(page.getByText('The connection to Weightroom is lost.')).toBeVisible();
  await desk.startAgain();
  const banner = page.getByRole('paragraph').filter({ hasText: 'Weightroom was started again.' });
  await expect(banner).toBeVisible({ timeout: 20_000 });
  await expect(banner).toContainText('weightroom serve');
  // What was there stays readable under the banner; the new address brings it up to date.
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
  await page.goto(desk.url);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await expect(page.getByRole('link', { name: 'store', exact: true }).first()).toBeVisible();
  await expect(banner).toHaveCount(0);
});
