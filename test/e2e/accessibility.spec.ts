/** axe finds nothing serious on any page, in either theme. */
import { AxeBuilder } from '@axe-core/playwright';
import { expect, test } from '@playwright/test';
import type { BrowserHost } from '../../src/host/browser-host.ts';
import { keyOf } from './fake-data.ts';
import { busyDesk, FakeDesk, serveFake } from './fake-host.ts';

const storePage = `#/store/${encodeURIComponent('/data/weights')}`;
const pages: Readonly<Record<string, string>> = {
  Workstation: '#/',
  Store: storePage,
  'Store, offline': `#/store/${encodeURIComponent('/mnt/nvme2/weights-old')}`,
  'Store, unknown': `#/store/${encodeURIComponent('/nowhere')}`,
  Artifact: `${storePage}/artifact/${keyOf('artifact 1')}`,
  'Artifact, missing': `${storePage}/artifact/${keyOf('none')}`,
  'Create a store': '#/create-store',
  'Open a store': '#/open-store',
  Builds: '#/builds',
  'Start a build': `#/builds/new?checkpoint=${encodeURIComponent('/models/Qwen3-Omni-30B-A3B')}`,
  'Start a build, problems': `#/builds/new?checkpoint=${encodeURIComponent('/models/broken-model')}`,
  Activity: '#/activity',
  Settings: '#/settings',
  'No such page': '#/nowhere/at/all',
};

let busy: BrowserHost;
let empty: BrowserHost;

test.beforeAll(async () => {
  [busy, empty] = await Promise.all([serveFake(busyDesk()), serveFake(new FakeDesk())]);
});

test.afterAll(async () => await Promise.all([busy.close(), empty.close()]));

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    for (const [name, hash] of Object.entries(pages)) {
      test(name, async ({ page }) => {
        await page.goto(busy.url);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
        await page.waitForTimeout(700);
        expect(await seriousOn(new AxeBuilder({ page }))).toEqual([]);
      });
    }

    test('the palette, the folder browser, and the empty start', async ({ page }) => {
      await page.goto(busy.url);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.keyboard.press('Control+k');
      await page.keyboard.type('flux');
      await page.getByRole('option').nth(2).waitFor();
      expect(await seriousOn(new AxeBuilder({ page }))).toEqual([]);
      await page.keyboard.press('Escape');
      await page.evaluate(`location.hash = '#/open-store'`);
      await page.getByRole('button', { name: 'Browse…' }).click();
      await page.getByRole('button', { name: 'notes' }).waitFor();
      expect(await seriousOn(new AxeBuilder({ page }))).toEqual([]);
      await page.goto(empty.url);
      await page.getByRole('heading', { name: 'No store is known yet' }).waitFor();
      expect(await seriousOn(new AxeBuilder({ page }))).toEqual([]);
    });
  });
}

async function seriousOn(axe: AxeBuilder): Promise<string[]> {
  const { violations } = await axe.analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary ?? ''}`),
    );
}
