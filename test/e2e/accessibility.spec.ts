/** axe finds nothing serious on any page in any of its states, in either theme. */
import { AxeBuilder } from '@axe-core/playwright';
import { expect, test, type Page } from '@playwright/test';
import { calm, openState, pageStates, stateCalled } from './states.ts';

// So tall that a whole page is on the screen: of what is scrolled out of it, axe does not judge the contrast.
test.use({ contextOptions: calm, viewport: { width: 1280, height: 2400 } });

for (const [name, state] of Object.entries(pageStates).filter(([, { isScrolled }]) => isScrolled !== true)) {
  test(name, async ({ page }) => {
    const { close } = await openState(page, state);
    try {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await expect(page.locator('html')).toHaveAttribute('data-theme', colorScheme);
        expect(await seriousOn(page), colorScheme).toEqual([]);
      }
    } finally {
      await close();
    }
  });
}

test('what is wrong is found: a picture without words, words too pale, a field without a label', async ({
  page,
}) => {
  const { close } = await openState(page, stateCalled('settings'));
  try {
    await page.evaluate(`
      const main = document.querySelector('main');
      const image = document.createElement('img');
      const words = document.createElement('p');
      words.textContent = 'Hardly to be read';
      words.style.color = '#c4c8d0';
      main.append(image, words, document.createElement('input'));
    `);
    const found = (await seriousOn(page)).map((line) => line.split(':', 1)[0]);
    expect(found.toSorted()).toEqual(['color-contrast', 'image-alt', 'label']);
  } finally {
    await close();
  }
});

async function seriousOn(page: Page): Promise<string[]> {
  // The first rows of a long table stand for all of them, and the tiles of the treemap are one picture with a name.
  const { violations } = await new AxeBuilder({ page })
    .options({ resultTypes: ['violations'] })
    .exclude('.windowed-frame tbody tr:nth-child(n+12)')
    .exclude('.tile')
    .analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary ?? ''}`),
    );
}
