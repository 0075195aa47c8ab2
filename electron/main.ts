/**
 * The desktop app, put together: one Workstation, one window, the contract between them. What it starts it ends:
 * quitting cancels its builds and closes its stores before the process goes.
 */
import { app, BrowserWindow, dialog, Menu, nativeTheme, screen, session } from 'electron';
import { join } from 'node:path';
import { deskRouter } from '../src/host/desk-router.ts';
import { defaultPaths, homeOf } from '../src/host/default-paths.ts';
import { makePrivateFolder } from '../src/host/durable-file.ts';
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

// Electron's own files lie beside ours, and not where its name would put them.
const profile = join(defaultPaths(env).state, 'electron');
makePrivateFolder(profile);
app.setName('Weightroom');
app.setPath('userData', profile);
app.enableSandbox();
if (app.commandLine.hasSwitch(softwareRendering)) app.disableHardwareAcceleration();
registerPageScheme();
guardEveryPage();
if (app.requestSingleInstanceLock()) run().catch(giveUp);
else app.quit();

/** Electron leaves a program that failed to start on the screen with nothing to see. */
function giveUp(error: unknown): void {
  console.error(error);
  dialog.showErrorBox('Weightroom can’t start', error instanceof Error ? error.message : String(error));
  app.exit(1);
}

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
  const unsafe = sandboxSwitchedOff();
  if (unsafe !== null) {
    workstation.reportProblem('app', `The window runs without Chromium’s sandbox, because of ${unsafe}.`);
  }
  const state = new WindowState(join(workstation.paths.state, 'window.json'));
  await state.read();

  const open = (): BrowserWindow => {
    const opened = new BrowserWindow({
      ...state.bounds(screen.getAllDisplays().map(({ workArea }) => workArea)),
      minWidth: 720,
      minHeight: 480,
      // The page's own ground, so that nothing flashes. A window that is hidden until it has painted would not tell
      // one that never does from one that nobody sees.
      backgroundColor: grounds[isDark(workstation) ? 'dark' : 'light'],
      title: 'Weightroom',
      webPreferences: webPreferences(preload),
    });
    state.follow(opened);
    watchCrashes(opened, workstation, fallback);
    opened.on('close', (event) => {
      if (quitting.mayClose()) return;
      event.preventDefault();
      app.quit();
    });
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
  const quitting = askBeforeQuitting(
    workstation,
    () => window,
    async () => {
      // Whoever starts the app from here on gets one that does not end.
      app.releaseSingleInstanceLock();
      stopWatching();
      try {
        await fallback.close();
      } finally {
        await workstation.close();
      }
    },
  );
  notifyOf(workstation.activity.added, () => window?.isFocused() ?? false, show);
  Menu.setApplicationMenu(
    Menu.buildFromTemplate(
      menuTemplate({ show, openInBrowser: () => fallback.open(), isPackaged: app.isPackaged }),
    ),
  );
  const stopWatching = watchFirstPaint({
    painted: (listener) => onPainted(own, listener),
    waitMs: firstPaintMs(env),
    isSeen: () => window !== null && window.isVisible() && !window.isMinimized(),
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

/** By what a person switched it off; Weightroom itself never does. */
function sandboxSwitchedOff(): string | null {
  if (app.commandLine.hasSwitch('no-sandbox')) return '--no-sandbox';
  return env['ELECTRON_DISABLE_SANDBOX'] === undefined ? null : 'ELECTRON_DISABLE_SANDBOX';
}

/** Of style/tokens.css. */
const grounds = { light: '#f4f5f8', dark: '#12151b' };

function isDark({ settings }: Workstation): boolean {
  const { theme } = settings.current;
  return theme === 'system' ? nativeTheme.shouldUseDarkColors : theme === 'dark';
}

/** Loading is broken off when the window closes or goes elsewhere; a page that never comes is the watchdog's. */
function load(window: BrowserWindow, url: string): void {
  window.loadURL(url).catch(() => undefined);
}
