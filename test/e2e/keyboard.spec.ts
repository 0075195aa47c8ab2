/** Against the real host, by keyboard alone: a store, a build, a check, a removal, a setting. No mouse is touched. */
import { expect, test, type Page } from '@playwright/test';
import { mib, RealDesk } from './real-desk.ts';

let desk: RealDesk;

test.beforeEach(async () => {
  desk = await RealDesk.start();
});

test.afterEach(async () => await desk.stop());

interface Focus {
  readonly name: string;
  readonly isMarked: boolean;
}

/** What has the focus, as a screen reader would name it, and whether it can be seen that it has. */
const focus = `(() => {
  const element = document.activeElement;
  const text = element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent ?? '';
  const isMarked = (marked) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(marked);
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
  };
  // A choice is marked as a whole, with its words.
  const label = element.closest('label');
  return {
    name: text.replace(/\\s+/g, ' ').trim(),
    isMarked: element === document.body || isMarked(element) || (label !== null && isMarked(label)),
  };
})()`;

/** Tab until something with this name has the focus. Everything on the way must show that it has it. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate<Focus>(focus);
    seen.push(focused.name.slice(0, 40));
    expect(focused.isMarked, `the focus shows on ${focused.name.slice(0, 40)}`).toBe(true);
    if (name.test(focused.name)) return;
  }
  throw new Error(`nothing called ${name} was reached; there were ${[...new Set(seen)].join(', ')}`);
}

async function press(page: Page, name: RegExp, key = 'Enter'): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press(key);
}

test('from nothing to a store, an artifact that is verified and removed, and a theme', async ({ page }) => {
  const checkpoint = await desk.checkpoint('tiny', 16 * mib);
  await page.goto(desk.url);
  await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();

  await press(page, /^Create a store$/);
  await expect(page.getByRole('heading', { level: 1, name: 'Create a store' })).toBeFocused();
  // A dialog keeps the focus, closes with Escape and gives it back to the button that opened it.
  await press(page, /^Browse…$/);
  await expect(page.getByRole('dialog')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Browse…' })).toBeFocused();
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.type(desk.path('store'));
  await tabTo(page, /^Limit \(required\)$/);
  await page.keyboard.type('1 GiB');
  await expect(page.getByText('Everything is fine.')).toBeVisible();
  await press(page, /^Create store$/);
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeFocused();

  await press(page, /^Start a build$/);
  await expect(page.getByRole('heading', { level: 1, name: 'Start a build' })).toBeFocused();
  await tabTo(page, /^Checkpoint folder/);
  await page.keyboard.type(checkpoint);
  await press(page, /^Look into it$/, 'Space');
  await expect(page.getByText('8 tensors')).toBeVisible();
  await press(page, /^Start build$/);
  await expect(page.getByRole('article', { name: 'Build of tiny, built' })).toBeVisible({ timeout: 30_000 });

  await press(page, /^[0-9a-f]{12}/);
  await expect(page.getByRole('heading', { name: 'Integrity' })).toBeVisible();
  await press(page, /^Verify now$/);
  await expect(page.getByText('It is whole')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.press('Escape');
  await press(page, /^Remove…$/);
  await expect(page.getByRole('dialog')).toBeVisible();
  await press(page, /^Remove \d/);
  await expect(page.getByText(/is removed: .* freed/)).toBeVisible();

  await page.keyboard.press('Control+k');
  await page.keyboard.type('settings');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeFocused();
  await tabTo(page, /^Like the system/);
  await page.keyboard.press('ArrowUp');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await press(page, /^Forget store$/);
  await press(page, /^Forget/);
  await expect(page.getByText('No store is known yet.')).toBeVisible();
});
