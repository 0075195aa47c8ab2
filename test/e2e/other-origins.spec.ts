/** Pages of other origins in the same browser, in which the desk is open: none of them gets at it. */
import { expect, test, type Page } from '@playwright/test';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { chromiumOptions } from './chromium.ts';
import { RealDesk } from './real-desk.ts';

/** A name that its owner points at this machine: how a page of theirs gets round the rule of the same origin. */
const rebound = 'rebound.example';

test.use({
  launchOptions: {
    ...chromiumOptions,
    args: [...chromiumOptions.args, `--host-resolver-rules=MAP ${rebound} 127.0.0.1`],
  },
});

let desk: RealDesk;
let attacker: Server;

test.beforeEach(async ({ page }) => {
  desk = await RealDesk.start();
  attacker = createServer((_request, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>another page</title>');
  }).listen(0, '127.0.0.1');
  await once(attacker, 'listening');
  await page.goto(desk.url);
  await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
});

test.afterEach(async () => {
  attacker.close();
  attacker.closeAllConnections();
  await desk.stop();
});

/** Each way in, and what came of it: true where the desk's side let it in. */
function attempts(target: string): string {
  return `(async () => {
    const target = ${JSON.stringify(target)};
    const reads = async (path, options) => {
      try {
        const answer = await fetch(target + path, { credentials: 'include', ...options });
        return answer.ok;
      } catch { return false; }
    };
    const connects = () => new Promise((done) => {
      const socket = new WebSocket(target.replace('http', 'ws') + '/rpc');
      socket.onopen = () => done(true);
      socket.onclose = () => done(false);
    });
    const loads = (tag, attribute, path) => new Promise((done) => {
      const element = document.createElement(tag);
      element.onload = () => done(true);
      element.onerror = () => done(false);
      element[attribute] = target + path;
      document.body.append(element);
    });
    return {
      page: await reads('/'),
      session: await reads('/session'),
      login: await reads('/session', { method: 'POST', body: '{"token":"x"}' }),
      socket: await connects(),
      picture: await loads('img', 'src', '/icon.svg'),
    };
  })()`;
}

const nothing = { page: false, session: false, login: false, socket: false, picture: false };

async function attackFrom(page: Page, origin: string, target: string): Promise<unknown> {
  const other = await page.context().newPage();
  await other.goto(origin);
  await expect(other).toHaveTitle('another page');
  return await other.evaluate(attempts(target));
}

test('the ways in work from the page itself', async ({ page }) => {
  const own = new URL(desk.url).origin;
  const fromWithin = { ...nothing, page: true, session: true, socket: true, picture: true };
  expect(await page.evaluate(attempts(own))).toEqual(fromWithin);
});

test('another port of this machine, and its other name', async ({ page }) => {
  const own = new URL(desk.url).origin;
  const { port } = attacker.address() as AddressInfo;
  for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
    expect(await attackFrom(page, origin, own)).toEqual(nothing);
    expect(await attackFrom(page, origin, own.replace('127.0.0.1', 'localhost'))).toEqual(nothing);
  }
});

test('a name that is pointed at this machine, before and after it is', async ({ page }) => {
  const own = new URL(desk.url);
  const { port } = attacker.address() as AddressInfo;
  expect(await attackFrom(page, `http://${rebound}:${port}`, own.origin)).toEqual(nothing);
  const other = await page.context().newPage();
  const answer = await other.goto(`http://${rebound}:${own.port}/`);
  expect(answer?.status()).toBe(403);
  expect(await other.evaluate(attempts(`http://${rebound}:${own.port}`))).toEqual(nothing);
});

test('the desk in a frame of another page is empty', async ({ page }) => {
  const { port } = attacker.address() as AddressInfo;
  const other = await page.context().newPage();
  await other.goto(`http://localhost:${port}/`);
  await other.evaluate(`new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.src = ${JSON.stringify(new URL(desk.url).origin)};
    frame.onload = done;
    document.body.append(frame);
  })`);
  const frame = other.frames().find((candidate) => candidate !== other.mainFrame());
  // What is in it is the browser's own page about a frame that was refused.
  expect(frame?.url()).toMatch(/^chrome-error:/);
  expect(await frame?.getByText('Weightroom').count()).toBe(0);
});
