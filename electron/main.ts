/**
 * The desktop app, put together: one Workstation, one window, the contract between them. What it starts it ends:
 * quitting cancels its builds and closes its stores before the process goes.
 */
import { app, BrowserWindow, Menu, screen, session } from 'electron';
import { join } from 'node:path';
import { deskRouter } from '../src/host/desk-router.ts';
import { homeOf } from '../src/host/default-paths.ts';
import { RpcServer } from '../src/host/rpc-connection.ts';
import { builtPages } from '../src/host/serving.ts';
import { StaticFiles } from '../src/host/static-files.ts';
import { Workstation } from '../src/host/workstation.ts';
import { onPainted, serveDeskPort } from './desk-port.ts';
import { pageUrl, registerPageScheme, servePages } from './app-protocol.ts';
import { BrowserFallback } from './browser-fallback.ts';
import { watchCrashes, watchHelperProcesses } from './crashes.ts';
import { desktopRouter } from './dialogs.ts';
import { firstPaintMs, softwareRendering, watchFirstPaint } from './first-paint.ts';
import { menuTemplate } from './menu.ts';
import { notifyOf } from './notifications.ts';
import { askBeforeQuitting } from './quitting.ts';
import { denyPermissions, denyRemoteContent, guardEveryPage, webPreferences } from './security.ts';
import { WindowState } from './window-state.ts';

const preload = join(import.meta.dirname, '..', 'dist', 'electron', 'preload.cjs');
const env = process.env;

app.enableSandbox();
if (app.commandLine.hasSwitch(softwareRendering)) app.disableHardwareAcceleration();
registerPageScheme();
guardEveryPage();
if (app.requestSingleInstanceLock()) void run();
else app.quit();

async function run(): Promise<void> {
  await app.whenReady();
  denyPermissions(session.defaultSession);
  denyRemoteContent(session.defaultSession);
  const files = new StaticFiles(builtPages);
  const [workstation] = await Promise.all([Workstation.open({ env }), files.read()]);
  servePages(session.defaultSession, files);

  let window: BrowserWindow | null = null;
  const own = (): Electron.WebContents | null => window?.webContents ?? null;
  const rpc = new RpcServer({
    ...deskRouter(workstation),
    desktop: desktopRouter(() => window, homeOf(env)),
  });
  serveDeskPort(rpc, own);
  const fallback = new BrowserFallback(rpc, env, workstation);
  watchHelperProcesses(workstation);
  const state = new WindowState(join(workstation.paths.state, 'window.json'));
  await state.read();

  const open = (): BrowserWindow => {
    const opened = new BrowserWindow({
      ...state.bounds(screen.getAllDisplays().map(({ workArea }) => workArea)),
      minWidth: 720,
      minHeight: 480,
      // Nothing is shown before there is something to see.
      show: false,
      title: 'Weightroom',
      webPreferences: webPreferences(preload),
    });
    state.follow(opened);
    watchCrashes(opened, workstation, fallback);
    opened.once('ready-to-show', () => opened.show());
    opened.on('closed', () => {
      window = null;
    });
    window = opened;
    load(opened, pageUrl);
    return opened;
  };

  const show = (hash?: string): void => {
    const shown = window ?? open();
    if (shown.isMinimized()) shown.restore();
    shown.show();
    shown.focus();
    if (hash !== undefined) load(shown, pageUrl + hash);
  };

  app.on('second-instance', () => show());
  app.on('activate', () => show());
  app.on('window-all-closed', () => app.quit());
  askBeforeQuitting(
    workstation,
    () => window,
    async () => {
      await fallback.close();
      await workstation.close();
    },
  );
  notifyOf(workstation.activity.added, () => window?.isFocused() ?? false, show);
  Menu.setApplicationMenu(
    Menu.buildFromTemplate(
      menuTemplate({ show, openInBrowser: () => fallback.open(), isPackaged: app.isPackaged }),
    ),
  );
  watchFirstPaint({
    painted: (listener) => onPainted(own, listener),
    waitMs: firstPaintMs(env),
    isSoftware: app.commandLine.hasSwitch(softwareRendering),
    fallback,
    workstation,
    relaunch: () => {
      app.relaunch({ args: [...process.argv.slice(1), `--${softwareRendering}`] });
      app.quit();
    },
  });
  open();
}

/** Loading is broken off when the window closes or goes elsewhere; a page that never comes is the watchdog's. */
function load(window: BrowserWindow, url: string): void {
  window.loadURL(url).catch(() => undefined);
}
