/** Makes a picture of every page in both themes at two sizes, for looking at: test/.cache/screenshots. */
import { mkdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { chromium, type Page } from '@playwright/test';
import { chromiumOptions } from './chromium.ts';
import { keyOf } from './fake-data.ts';
import { busyDesk, FakeDesk, serveFake } from './fake-host.ts';

const folder = resolve(import.meta.dirname, '../.cache/screenshots');
const store = `#/store/${encodeURIComponent('/data/weights')}`;

interface Shot {
  readonly name: string;
  readonly hash: string;
  readonly empty?: boolean;
  readonly act?: (page: Page) => Promise<void>;
}

const shots: readonly Shot[] = [
  { name: 'workstation', hash: '#/' },
  { name: 'workstation-empty', hash: '#/', empty: true },
  { name: 'store', hash: store },
  {
    name: 'store-table',
    hash: store,
    act: async (page) => await page.getByRole('heading', { name: 'Artifacts' }).scrollIntoViewIfNeeded(),
  },
  { name: 'store-offline', hash: `#/store/${encodeURIComponent('/mnt/nvme2/weights-old')}` },
  { name: 'artifact', hash: `${store}/artifact/${keyOf('artifact 1')}` },
  {
    name: 'artifact-verifying',
    hash: `${store}/artifact/${keyOf('artifact 2')}`,
    act: async (page) => {
      await page.getByRole('button', { name: 'Verify now' }).click();
      await page.getByText('GiB/s').first().waitFor();
    },
  },
  {
    name: 'artifact-tensors',
    hash: `${store}/artifact/${keyOf('artifact 2')}`,
    act: async (page) => await page.getByRole('heading', { name: 'Tensors' }).scrollIntoViewIfNeeded(),
  },
  {
    name: 'artifact-remove',
    hash: `${store}/artifact/${keyOf('artifact 2')}`,
    act: async (page) => await page.getByRole('button', { name: 'Remove…' }).click(),
  },
  {
    name: 'create-store',
    hash: '#/create-store',
    act: async (page) => {
      await page.getByLabel('Folder').fill('/data/new-weights');
      await page.waitForTimeout(600);
    },
  },
  { name: 'open-store', hash: '#/open-store' },
  { name: 'builds', hash: '#/builds' },
  { name: 'builds-empty', hash: '#/builds', empty: true },
  { name: 'new-build', hash: `#/builds/new?checkpoint=${encodeURIComponent('/models/Qwen3-Omni-30B-A3B')}` },
  {
    name: 'new-build-problem',
    hash: `#/builds/new?checkpoint=${encodeURIComponent('/models/broken-model')}`,
  },
  {
    name: 'folder-browser',
    hash: '#/builds/new',
    act: async (page) => await page.getByRole('button', { name: 'Browse…' }).click(),
  },
  { name: 'activity', hash: '#/activity' },
  { name: 'settings', hash: '#/settings' },
  {
    name: 'palette',
    hash: '#/',
    act: async (page) => {
      await page.keyboard.press('Control+k');
      await page.keyboard.type('flux');
      await page.getByRole('option').nth(3).waitFor();
    },
  },
];

const only = process.argv.slice(2);
await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
const [busy, empty] = await Promise.all([serveFake(busyDesk()), serveFake(new FakeDesk())]);
const browser = await chromium.launch(chromiumOptions);
for (const colorScheme of ['light', 'dark'] as const) {
  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 1920, height: 1080 },
  ]) {
    for (const host of [busy, empty]) {
      const context = await browser.newContext({ colorScheme, viewport });
      const page = await context.newPage();
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') console.error(message.text());
      });
      page.on('pageerror', (error) => console.error(error));
      await page.goto(host.url);
      await page.getByRole('heading', { level: 1 }).waitFor();
      for (const { name, hash, act } of shots.filter(
        ({ empty: isEmpty = false }) => isEmpty === (host === empty),
      )) {
        if (only.length > 0 && !only.includes(name)) continue;
        // By way of another page, so that a shot never starts from what the last one left open.
        await page.keyboard.press('Escape');
        await page.evaluate(`location.hash = '#/nowhere'`);
        await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
        await page.waitForTimeout(900);
        await act?.(page);
        await page.waitForTimeout(250);
        await page.screenshot({ path: resolve(folder, `${name}-${colorScheme}-${viewport.width}.png`) });
      }
      await context.close();
    }
  }
}
await browser.close();
await Promise.all([busy.close(), empty.close()]);
console.log(`The pictures are in ${folder}.`);
