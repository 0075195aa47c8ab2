/**
 * The Chromium behind the stand-in's window. What Electron's network layer does is done by intercepting requests:
 * the app's own scheme is served at a stand-in origin, because an unmodified Chromium navigates to no unknown one.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  chromium,
  type BrowserContext,
  type Page,
  type Request as PageRequest,
  type Route,
} from '@playwright/test';
import { chromiumOptions } from '../e2e/chromium.ts';

export const ownUrl = 'weightroom://app/';
/** A secure context, as the app's scheme is. */
const standInUrl = 'http://app.localhost/';

export const toChromium = (url: string): string => url.replace(ownUrl, standInUrl);
export const fromChromium = (url: string): string => url.replace(standInUrl, ownUrl);

export interface Network {
  /** True: the request is not made. */
  readonly isCancelled: (url: string) => Promise<boolean>;
  readonly isNavigationPrevented: (url: string, isMainFrame: boolean) => boolean;
  readonly answer: (request: Request) => Promise<Response>;
  readonly opened: (url: string) => void;
}

export interface StandInBrowser {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Where a second client finds it. */
  readonly debuggingPort: number;
  readonly close: () => Promise<void>;
}

export async function startBrowser(network: Network): Promise<StandInBrowser> {
  const folder = await mkdtemp(join(tmpdir(), 'weightroom-standin-'));
  const context = await chromium.launchPersistentContext(folder, {
    ...chromiumOptions,
    args: [...chromiumOptions.args, '--remote-debugging-port=0'],
    viewport: null,
  });
  const [page] = context.pages();
  if (page === undefined) throw new Error('Chromium has no page.');
  await context.route('**/*', async (route) => await answerRoute(route, page, network));
  context.on('page', (popup) => void popup.close());
  const [port] = (await readFile(join(folder, 'DevToolsActivePort'), 'utf8')).split('\n');
  return {
    context,
    page,
    debuggingPort: Number(port),
    close: async () => {
      await context.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function answerRoute(route: Route, page: Page, network: Network): Promise<void> {
  const request = route.request();
  const url = fromChromium(request.url());
  const isNavigation = request.isNavigationRequest();
  if (pageOf(request) !== page) {
    network.opened(url);
    return await route.abort('aborted');
  }
  const isMainFrame = isNavigation && request.frame() === page.mainFrame();
  const isFirst = isMainFrame && page.url() === 'about:blank';
  if (isNavigation && !isFirst && network.isNavigationPrevented(url, isMainFrame)) {
    return await route.abort('aborted');
  }
  if (await network.isCancelled(url)) return await route.abort('blockedbyclient');
  if (!url.startsWith('weightroom:')) return await route.abort('addressunreachable');
  const response = await network.answer(new Request(url, { method: request.method() }));
  await route.fulfill({
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: Buffer.from(await response.arrayBuffer()),
  });
}

/** Null: a window that was only just opened has no frame yet. */
function pageOf(request: PageRequest): Page | null {
  try {
    return request.frame().page();
  } catch {
    return null;
  }
}
