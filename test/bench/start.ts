/** From the start of `weightroom serve` to the rows of a store of 1,000 artifacts on screen, in Chromium. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium, type Browser } from '@playwright/test';
import { chromiumOptions } from '../e2e/chromium.ts';
import { environmentBelow, RealHost } from '../e2e/real-host.ts';
import type { Domain } from '../../src/store/domain.ts';
import { figure, median, type Figure } from './measure.ts';
import { multiply, newDomain, publish } from './stores.ts';

const runs = 5;
const artifacts = 1000;
const boundMs = 1500;

export async function start(folder: string): Promise<Figure[]> {
  const domain = await newDomain(join(folder, 'start'));
  const small = await publish(domain, { label: 'small', files: 1, tensorsPerFile: 4, bytesPerTensor: 1024 });
  multiply(domain, small, artifacts - 1);
  return [await startWith(domain, artifacts, join(folder, 'start-home'))];
}

/** With a store that is on the list, and that an earlier start has looked at. */
export async function startWith(domain: Domain, count: number, home: string): Promise<Figure> {
  const { XDG_CONFIG_HOME: config = '' } = await environmentBelow(home);
  await mkdir(join(config, 'weightroom'));
  await writeFile(join(config, 'weightroom', 'settings.json'), JSON.stringify({ stores: [domain.root] }));
  const browser = await chromium.launch(chromiumOptions);
  try {
    const totals: number[] = [];
    const addresses: number[] = [];
    const numbers: number[] = [];
    for (let run = 0; run <= runs; run += 1) {
      const times = await oneStart(browser, home, count.toLocaleString('en'));
      // The first one fills the disk's cache for all the others, on either side of the change that is measured.
      if (run === 0) continue;
      addresses.push(times.address);
      numbers.push(times.numbers);
      totals.push(times.rows);
    }
    const remark = `address printed after ${median(addresses).toFixed(0)} ms, the store's numbers after ${median(numbers).toFixed(0)} ms`;
    const name = `start of \`weightroom serve\` to the rows of ${count.toLocaleString('en')} artifacts painted`;
    return figure(name, boundMs, { value: median(totals), unit: 'ms', runs, remark });
  } finally {
    await browser.close();
  }
}

/** Milliseconds since the process was started, each. */
async function oneStart(
  browser: Browser,
  home: string,
  count: string,
): Promise<{ address: number; numbers: number; rows: number }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto('about:blank');
  const started = performance.now();
  const host = await RealHost.start(home);
  try {
    const address = performance.now() - started;
    await page.goto(host.url, { waitUntil: 'commit' });
    const store = page.getByRole('article', { name: /^Store/ });
    await store.getByText(count).first().waitFor();
    const numbers = performance.now() - started;
    await store.getByRole('link').first().click();
    await page.locator('.windowed-frame tr[aria-rowindex="20"] a').waitFor();
    // Two frames on, what is in the document is on the screen.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    return { address, numbers, rows: performance.now() - started };
  } finally {
    await context.close();
    await host.stop();
  }
}
