/** Frame times while 10,000 artifacts are scrolled, searched and sorted, in Chromium against the real host. */
import { join } from 'node:path';
import { chromium, type Page } from '@playwright/test';
import { chromiumOptions } from '../e2e/chromium.ts';
import { environmentBelow, RealHost } from '../e2e/real-host.ts';
import { connectDesk } from '../fixtures/desk-client.ts';
import { figure, median, type Figure } from './measure.ts';
import { multiply, newDomain, publish } from './stores.ts';

const artifacts = 10_000;
const frames = 300;
/** Half a second of frames, after which each of these has long shown its rows. */
const framesOfAnAnswer = 30;
/** Two frames of a 60 Hz screen: one may be missed, none is seen to be. */
const boundMs = 34;

export async function scrolling(folder: string): Promise<Figure[]> {
  const domain = await newDomain(join(folder, 'scrolling'));
  const small = await publish(domain, { label: 'small', files: 1, tensorsPerFile: 4, bytesPerTensor: 1024 });
  multiply(domain, small, artifacts - 1);
  const home = join(folder, 'scrolling-home');
  await environmentBelow(home);
  const host = await RealHost.start(home);
  const browser = await chromium.launch(chromiumOptions);
  try {
    const { client, close } = await connectDesk(host.url);
    await client.stores.open({ root: domain.root });
    close();
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(host.url);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.evaluate(`location.hash = ${JSON.stringify(`#/store/${encodeURIComponent(domain.root)}`)}`);
    await page.locator('.windowed-frame tr[aria-rowindex="20"] a').waitFor();
    await page.evaluate(`document.querySelector('.windowed-frame').scrollIntoView()`);
    await framesWhile(page, '', 60);
    const frame = `document.querySelector('.windowed-frame')`;
    return [
      told('scrolling 10,000 artifacts', await framesWhile(page, `${frame}.scrollTop += 240`, frames)),
      told('jumping through 10,000 artifacts', await framesWhile(page, jump(frame), frames)),
      told('sorting 10,000 artifacts', await framesWhile(page, sort, frames)),
      told('searching 10,000 artifacts', await framesWhile(page, search, frames)),
    ];
  } finally {
    await browser.close();
    await host.stop();
  }
}

const jump = (frame: string): string =>
  `if (n % 10 === 0) ${frame}.scrollTop = ((n * 7919) % 10000) / 10000 * ${frame}.scrollHeight`;
const sort = `if (n % ${framesOfAnAnswer} === 0) document.querySelectorAll('.windowed-frame thead button')[n / ${framesOfAnAnswer} % 9].click()`;
const search = `if (n % ${framesOfAnAnswer} === 0) {
  const field = document.querySelector('input[type=search]');
  field.value = 'copy-' + n / ${framesOfAnAnswer};
  field.dispatchEvent(new Event('input', { bubbles: true }));
}`;

/** `step` is JavaScript for the page, run in each frame with its number as `n`. */
async function framesWhile(page: Page, step: string, count: number): Promise<number[]> {
  return await page.evaluate<number[]>(`new Promise((done) => {
    const times = [];
    let last = performance.now();
    const onFrame = (now) => {
      if (times.push(now - last) > ${count}) return done(times.slice(1));
      last = now;
      const n = times.length - 1;
      ${step};
      requestAnimationFrame(onFrame);
    };
    requestAnimationFrame(onFrame);
  })`);
}

function told(what: string, times: readonly number[]): Figure {
  const sorted = times.toSorted((a, b) => a - b);
  const value = sorted[Math.floor(sorted.length * 0.95)] as number;
  const remark = `median ${median(times).toFixed(1)} ms, longest ${sorted.at(-1)?.toFixed(1)} ms, software rendering`;
  return figure(`frame time, 95 % of frames: ${what}`, boundMs, {
    value,
    unit: 'ms',
    runs: times.length,
    remark,
  });
}
