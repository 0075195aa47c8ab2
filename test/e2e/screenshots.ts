/**
 * Makes a picture of every page in every state, in both themes at two sizes, for looking at:
 * test/.cache/screenshots. With names, only of these. `--readme` makes the README's pictures instead.
 */
import { mkdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { chromium, type Browser } from '@playwright/test';
import { chromiumOptions } from './chromium.ts';
import { calm, openState, pageStates, stateCalled, type PageState } from './states.ts';

const themes = ['light', 'dark'] as const;
const names = process.argv.slice(2);
const browser = await chromium.launch(chromiumOptions);
if (names.includes('--readme')) await forReadme(browser);
else await forLooking(browser, names);
await browser.close();

async function forLooking(browser: Browser, only: readonly string[]): Promise<void> {
  const folder = resolve(import.meta.dirname, '../.cache/screenshots');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const states = Object.entries(pageStates).filter(([name]) => only.length === 0 || only.includes(name));
  for (const theme of themes) {
    for (const [width, height] of [
      [1280, 800],
      [1920, 1080],
    ] as const) {
      for (const [name, state] of states) {
        const path = resolve(folder, `${name}-${theme}-${width}.png`);
        await picture(browser, state, theme, { width, height }, path);
      }
    }
  }
  console.log(`The pictures are in ${folder}.`);
}

async function forReadme(browser: Browser): Promise<void> {
  const folder = resolve(import.meta.dirname, '../../build/readme');
  await mkdir(folder, { recursive: true });
  const state = stateCalled('store');
  for (const theme of themes) {
    await picture(browser, state, theme, { width: 1280, height: 800 }, resolve(folder, `store-${theme}.png`));
  }
  console.log(`The README's pictures are in ${folder}.`);
}

async function picture(
  browser: Browser,
  state: PageState,
  colorScheme: (typeof themes)[number],
  viewport: { width: number; height: number },
  path: string,
): Promise<void> {
  const context = await browser.newContext({ ...calm, colorScheme, viewport });
  const page = await context.newPage();
  page.on('pageerror', (error) => console.error(path, error));
  const { close } = await openState(page, state);
  await page.evaluate('document.fonts.ready.then(() => true)');
  await page.screenshot({ path });
  await context.close();
  await close();
}
