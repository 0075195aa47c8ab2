/** Against the real host: from nothing to a built sample and an artifact that is verified; and who is let in. */
import { expect, test } from '@playwright/test';
import { RealDesk } from './real-desk.ts';

let desk: RealDesk;

test.beforeEach(async () => {
  desk = await RealDesk.start();
});

test.afterEach(async () => await desk.stop());

test('first start: nothing is known, and a click later the sample is built', async ({ page }) => {
  await page.goto(desk.url);
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

test('an address without its token is not let in, and says what to do', async ({ page }) => {
  await page.goto(desk.url.replace(/#.*/, ''));
  await expect(page.getByRole('heading', { name: 'This address needs its token' })).toBeVisible();
  await page.goto(desk.url);
  await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
});
