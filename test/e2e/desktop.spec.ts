/**
 * The desktop app. Its own files run as they are; Electron itself is stood in for (see electron-standin), and
 * only the path through the pages runs in a real one too, where its program is found. Each test says which ran.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { _electron, expect, test, type Page } from '@playwright/test';
import { Desktop } from '../electron-standin/desktop.ts';
import { environmentBelow } from './real-host.ts';
import { goTo } from './real-desk.ts';

const checkout = resolve(import.meta.dirname, '../..');
const electronFolder =
  process.env['ELECTRON_OVERRIDE_DIST_PATH'] ?? join(checkout, 'node_modules/electron/dist');
const electron = join(electronFolder, 'electron');

let desktop: Desktop;

test.afterEach(async () => await (desktop as Desktop | undefined)?.stop());

test.describe('over the stand-in for Electron', () => {
  test('from nothing to a built sample, through each page, over a message port', async () => {
    console.log('ran over: the stand-in for Electron');
    desktop = await Desktop.start();
    await walkThroughPages(await desktop.page());
    expect(desktop.calls('request cancelled')).toEqual([]);
  });

  test('the window is made to be safe, and shown when there is something to see', async () => {
    desktop = await Desktop.start();
    await desktop.page();
    const { options } = (await desktop.call('new BrowserWindow')) as unknown as {
      options: { show: boolean; webPreferences: Record<string, unknown> };
    };
    expect(options.show).toBe(false);
    expect(options.webPreferences).toMatchObject({
      contextIsolation: true,
      sandbox: true,
      nodeIntegration: false,
      nodeIntegrationInWorker: false,
      nodeIntegrationInSubFrames: false,
      webSecurity: true,
      webviewTag: false,
    });
    await desktop.call('window.show');
    expect(desktop.calls('app.enableSandbox')).toHaveLength(1);
    expect(desktop.calls('app.disableHardwareAcceleration')).toEqual([]);
  });

  test('only the app’s own page in its own window is given a port', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    const ask = async (who: Parameters<typeof invoke>[0]): Promise<string | undefined> => await invoke(who);
    const invoke = async (
      who:
        | 'own page'
        | 'frame in the page'
        | 'page of another origin'
        | 'another page'
        | 'frame that is gone'
        | 'another window',
    ): Promise<string | undefined> =>
      (await desktop.order<{ error?: string }>({ do: 'invoke-as', who, channel: 'weightroom:connect' }))
        .error;
    for (const who of [
      'frame in the page',
      'page of another origin',
      'another page',
      'frame that is gone',
      'another window',
    ] as const) {
      expect(await ask(who), who).toContain('Only Weightroom’s own page');
    }
    expect(await ask('own page')).toBeUndefined();
    // The port that the page had was closed for the new one: it asks again by itself, and works.
    await goTo(page, '#/settings');
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible();
  });

  test('permissions, other places and other windows are denied', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    for (const permission of [
      'media',
      'geolocation',
      'notifications',
      'clipboard-read',
      'openExternal',
      'usb',
    ]) {
      expect(await desktop.order({ do: 'ask-permission', permission }), permission).toEqual({
        request: false,
        check: false,
        device: false,
      });
    }
    expect(await desktop.order({ do: 'ask-permission', permission: 'clipboard-sanitized-write' })).toEqual({
      request: true,
      check: true,
      device: false,
    });

    const before = page.url();
    await page.evaluate(`location.href = 'https://example.com/'`);
    await desktop.call('navigation prevented');
    expect(page.url()).toBe(before);

    await page.evaluate(`window.open('https://example.com/')`);
    await expect.poll(() => desktop.calls('window.open').length).toBe(1);
    expect(desktop.calls('window.open')[0]).toMatchObject({ action: 'deny' });
    expect(desktop.calls('shell.openExternal')).toEqual([]);
  });

  test('what the page is made of comes from the app alone, under its policy', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    const fetched = async (
      url: string,
      method?: string,
    ): Promise<{ status: number; headers: Record<string, string> }> =>
      await desktop.order({ do: 'fetch', url, ...(method === undefined ? {} : { method }) });
    const { status, headers } = await fetched('weightroom://app/');
    expect(status).toBe(200);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(headers['content-security-policy']).toContain("connect-src 'self';");
    expect(headers['content-security-policy']).not.toMatch(/unsafe|ws:|http/);
    for (const url of [
      'weightroom://app/../package.json',
      'weightroom://app/%2e%2e/package.json',
      'weightroom://app//etc/passwd',
      'weightroom://other/index.html',
      'weightroom://app/index.html.map',
    ]) {
      expect((await fetched(url)).status, url).toBe(404);
    }
    expect((await fetched('weightroom://app/', 'POST')).status).toBe(405);
    const refused = await page.evaluate(`fetch('https://example.com/').then(() => 'read', () => 'refused')`);
    expect(refused).toBe('refused');
  });

  test('the desktop’s own dialog chooses a folder', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    await goTo(page, '#/open-store');
    await desktop.order({ do: 'answer-dialog', answer: { path: '/chosen/by/dialog' } });
    await page.getByRole('button', { name: 'Browse…' }).click();
    await expect(page.getByRole('textbox')).toHaveValue('/chosen/by/dialog');
    await desktop.order({ do: 'answer-dialog', answer: { path: null } });
    await page.getByRole('button', { name: 'Browse…' }).click();
    await expect.poll(() => desktop.calls('dialog.showOpenDialog').length).toBe(2);
    await expect(page.getByRole('textbox')).toHaveValue('/chosen/by/dialog');
  });

  test('the menu goes to the pages, and who looks elsewhere is told of a build that ended', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
    await desktop.order({ do: 'click-menu', label: 'Settings' });
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible();
    await desktop.order({ do: 'click-menu', label: 'Workstation' });
    await page.getByRole('button', { name: 'Try it with a sample' }).click();
    expect(await desktop.call('Notification.show')).toMatchObject({ title: 'A build ended' });
    await desktop.order({ do: 'click-notification' });
    await expect(page.getByRole('heading', { level: 1, name: 'Builds' })).toBeVisible();
  });

  test('a page that dies is loaded again, and when it keeps dying people are asked', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
    for (let death = 1; death <= 3; death += 1) {
      await desktop.order({ do: 'crash-page' });
      await expect.poll(() => desktop.calls('webContents.reload').length).toBe(death);
      await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
    }
    await expect(page.getByText('ended by itself').first()).toBeVisible();
    await desktop.order({ do: 'crash-page' });
    expect(await desktop.call('dialog.showMessageBox')).toMatchObject({
      options: { message: expect.stringContaining('keeps ending by itself') as unknown },
    });
    expect(desktop.calls('webContents.reload')).toHaveLength(3);
  });

  test('where the window was is known the next time', async () => {
    desktop = await Desktop.start();
    await desktop.page();
    await desktop.order({ do: 'move-window' });
    const saved = join(desktop.folder, 'state/weightroom/window.json');
    await expect.poll(() => existsSync(saved)).toBe(true);
    expect(JSON.parse(await readFile(saved, 'utf8'))).toEqual({
      x: 10,
      y: 20,
      width: 1000,
      height: 700,
      isMaximized: false,
    });
    const { folder } = desktop;
    await desktop.quit();
    desktop = await Desktop.start({ folder });
    expect(await desktop.call('new BrowserWindow')).toMatchObject({
      options: { x: 10, y: 20, width: 1000, height: 700 },
    });
    await desktop.page();
  });

  test('a second start brings the first one forward', async () => {
    desktop = await Desktop.start();
    await desktop.page();
    const second = await Desktop.start({ folder: desktop.folder });
    expect(await second.ended()).toBe(0);
    expect(second.calls('new BrowserWindow')).toEqual([]);
    await desktop.call('window.focus');
  });

  test('quitting while a build runs asks first, and cancels it', async () => {
    desktop = await Desktop.start();
    const page = await desktop.page();
    await page.getByRole('button', { name: 'Try it with a sample' }).click();
    await desktop.order({ do: 'close-window' });
    expect(await desktop.call('dialog.showMessageBox')).toMatchObject({
      options: { message: 'A build is running.', cancelId: 0 },
    });
    await desktop.order({ do: 'answer-dialog', answer: { button: 1 } });
    expect(await desktop.ended()).toBe(0);
  });

  test('a window that shows nothing is drawn in software, and after that in a browser', async () => {
    const env = { STANDIN_NEVER_PAINTS: '1', WEIGHTROOM_FIRST_PAINT_MS: '300' };
    desktop = await Desktop.start({ env });
    expect(await desktop.call('app.relaunch')).toMatchObject({ args: ['--software-rendering'] });
    expect(await desktop.ended()).toBe(0);
    const { folder } = desktop;
    desktop = await Desktop.start({
      folder,
      args: ['--software-rendering'],
      env: { ...env, DISPLAY: '', WAYLAND_DISPLAY: '' },
    });
    await desktop.call('app.disableHardwareAcceleration');
    const instance = join(folder, 'state/weightroom/browser-host.json');
    await expect.poll(() => existsSync(instance)).toBe(true);
    const activity = await readFile(join(folder, 'state/weightroom/activity.jsonl'), 'utf8');
    expect(activity).toContain('starts again with software rendering');
  });
});

test('the same path in a real Electron', async () => {
  test.skip(
    !existsSync(electron),
    'Electron’s program is not installed: the stand-in ran, and not Electron.',
  );
  console.log(`ran over: ${electron}`);
  desktop = await Desktop.start();
  const env = (await environmentBelow(desktop.folder)) as Record<string, string>;
  await desktop.quit();
  const app = await _electron.launch({
    executablePath: electron,
    args: [join(checkout, 'electron/main.ts')],
    env,
  });
  await walkThroughPages(await app.firstWindow());
  await app.close();
});

/** First start to a built sample, and every page with its own first words. */
async function walkThroughPages(page: Page): Promise<void> {
  await expect(page.getByRole('heading', { name: 'No store is known yet' })).toBeVisible();
  await page.getByRole('button', { name: 'Try it with a sample' }).click();
  await expect(page.getByRole('article', { name: /^Store/ })).toBeVisible({ timeout: 30_000 });
  await goTo(page, '#/builds');
  const built = page.getByRole('article', { name: /built|was there/ });
  await expect(built).toBeVisible({ timeout: 60_000 });
  await built.locator('a.mono').click();
  await expect(page.getByRole('heading', { name: 'Tensors' })).toBeVisible();
  await page.getByRole('button', { name: 'Verify now' }).click();
  await expect(page.getByText('It is whole')).toBeVisible();
  await page.getByRole('link', { name: 'store', exact: true }).first().click();
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
  for (const [hash, heading] of [
    ['#/create-store', 'Create a store'],
    ['#/open-store', 'Open a store'],
    ['#/builds/new', 'Start a build'],
    ['#/activity', 'Activity'],
    ['#/settings', 'Settings'],
  ] as const) {
    await goTo(page, hash);
    await expect(page.getByRole('heading', { level: 1, name: heading })).toBeVisible();
  }
  await goTo(page, '#/');
  await expect(page.getByRole('article', { name: /^Store/ })).toBeVisible();
}
