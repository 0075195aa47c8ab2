/**
 * The Tab key through every page in every state: it reaches everything that can be used, in the order in which it
 * stands there, each with a name and a mark that can be seen, and nothing keeps the focus.
 */
import { expect, test, type Page } from '@playwright/test';
import { calm, openState, pageStates, stateCalled } from './states.ts';

test.use({ contextOptions: calm });

interface Stop {
  /** Its place among all that the Tab key should reach; -1 where it is none of them. */
  readonly place: number;
  readonly name: string;
  readonly isMarked: boolean;
  readonly isOnScreen: boolean;
}

/** All that the Tab key should reach, in the order of the document; of a dialog only what is in it. */
const prepare = `(() => {
  const scope = document.querySelector('dialog[open]') ?? document;
  const candidates = [...scope.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')];
  const radios = new Set();
  globalThis.stops = candidates.filter((element) => {
    if (element.disabled || element.tabIndex < 0 || !element.checkVisibility({ visibilityProperty: true })) return false;
    if (element.type !== 'radio') return true;
    const isGroupChecked = candidates.some(({ type, name, checked }) => type === 'radio' && name === element.name && checked);
    if (isGroupChecked ? !element.checked : radios.has(element.name)) return false;
    radios.add(element.name);
    return true;
  });
  document.activeElement?.blur?.();
  return globalThis.stops.length;
})()`;

const focused = `(() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return null;
  const text = element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent ?? '';
  const isMarked = (marked) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(marked);
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
  };
  const label = element.closest('label');
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return {
    place: globalThis.stops.indexOf(element),
    name: text.replace(/\\s+/g, ' ').trim().slice(0, 60),
    isMarked: isMarked(element) || (label !== null && isMarked(label)),
    isOnScreen: right > 0 && bottom > 0 && left < innerWidth && top < innerHeight,
  };
})()`;

async function walk(page: Page, count: number): Promise<Stop[]> {
  const stops: Stop[] = [];
  // From the top of the document or of the dialog, whatever had the focus; once round and out again.
  for (
    let presses = 0;
    presses < 2 * count + 4 && new Set(stops.map(({ place }) => place)).size < count;
    presses += 1
  ) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate<Stop | null>(focused);
    if (stop !== null) stops.push(stop);
  }
  return stops;
}

async function faultsOf(page: Page): Promise<string[]> {
  const count = await page.evaluate<number>(prepare);
  const stops = await walk(page, count);
  const faults = stops.flatMap(({ place, name, isMarked, isOnScreen }, n) => {
    const before = stops[n - 1];
    return [
      ...(place < 0 ? [`${name}: is not among what can be used`] : []),
      ...(name === '' ? [`${place}: has no name`] : []),
      ...(isMarked ? [] : [`${name}: the focus does not show`]),
      ...(isOnScreen ? [] : [`${name}: is not on the screen`]),
      ...(before === undefined || place === (before.place + 1) % count
        ? []
        : [`${name}: comes after ${before.name}`]),
    ];
  });
  const reached = new Set(stops.map(({ place }) => place)).size;
  return reached === count ? faults : [...faults, `${count - reached} of ${count} are not reached`];
}

for (const [name, state] of Object.entries(pageStates).filter(([, { isScrolled }]) => isScrolled !== true)) {
  test(name, async ({ page }) => {
    const { close } = await openState(page, state);
    try {
      expect(await faultsOf(page)).toEqual([]);
    } finally {
      await close();
    }
  });
}

test('what is wrong is found: no name, no mark, out of order, out of reach', async ({ page }) => {
  const { close } = await openState(page, stateCalled('open-store'));
  try {
    await page.evaluate(`
      const add = (words, change) => {
        const button = document.createElement('button');
        button.textContent = words;
        change(button);
        document.querySelector('main').append(button);
      };
      add('', () => {});
      add('unmarked', ({ style }) => (style.outline = 'none'));
      add('early', (button) => (button.tabIndex = 3));
      add('passed over', (button) => button.addEventListener('focus', () => button.blur()));
    `);
    const faults = (await faultsOf(page)).join('\n');
    expect(faults).toContain('has no name');
    expect(faults).toContain('unmarked: the focus does not show');
    expect(faults).toContain('comes after early');
    expect(faults).toContain('are not reached');
  } finally {
    await close();
  }
});
