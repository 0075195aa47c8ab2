/**
 * Stands in for the `electron` module where its program can't be had: the part that the app uses, over Node and
 * Debian's Chromium. It carries the app's own options, ports and protocol, keeps a record of what the app asked
 * for, and refuses whatever it does not know. It shows nothing of Electron's own: not its sandbox, not the
 * isolation of its preload, no native window, menu or dialog.
 */
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { fromChromium, startBrowser, toChromium, type StandInBrowser } from './browser.ts';
import { MessageChannelMain as Channel, type StandInPort } from './ports.ts';
import type { Answer, Order, Recorded } from './protocol.ts';

const world = readFileSync(new URL('./preload-world.mjs', import.meta.url), 'utf8');

function record(what: Recorded): void {
  process.send?.({ type: 'recorded', what });
}

/** What is not there is said by name, instead of being undefined. */
function only<T extends object>(name: string, parts: T): T {
  return new Proxy(parts, {
    get: (target, property, receiver) => {
      if (property in target || typeof property === 'symbol' || property === 'then') {
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
      }
      void receiver;
      throw new Error(`The stand-in for Electron has no ${name}.${property}.`);
    },
  });
}

class Preventable {
  defaultPrevented = false;
  preventDefault(): void {
    this.defaultPrevented = true;
  }
}

// --- the app ---

class App extends EventEmitter {
  readonly isPackaged = false;
  readonly commandLine = {
    hasSwitch: (name: string): boolean => process.argv.includes(`--${name}`),
  };
  #server: Server | null = null;

  async whenReady(): Promise<void> {
    await lockHeld;
  }

  enableSandbox(): void {
    record({ call: 'app.enableSandbox' });
  }

  disableHardwareAcceleration(): void {
    record({ call: 'app.disableHardwareAcceleration' });
  }

  /** Electron asks its user data folder; here a socket in the runtime folder tells who was first, a moment later. */
  requestSingleInstanceLock(): boolean {
    return true;
  }

  async claim(): Promise<void> {
    const path = join(process.env['XDG_RUNTIME_DIR'] ?? '/nowhere', 'standin-instance');
    const isFirst = await new Promise<boolean>((resolve) => {
      const server = createServer((socket) => {
        socket.end();
        this.emit('second-instance', new Preventable(), [], '/');
      });
      server.on('error', () => {
        createConnection(path)
          .on('connect', () => resolve(false))
          .on('error', () => resolve(false));
      });
      server.listen(path, () => {
        this.#server = server;
        resolve(true);
      });
    });
    if (isFirst) return;
    record({ call: 'app.second-instance' });
    await new Promise((resolve) => setImmediate(resolve));
    process.exit(0);
  }

  relaunch(options: { args: string[] }): void {
    record({ call: 'app.relaunch', args: options.args.slice(1) });
  }

  quit(): void {
    const before = new Preventable();
    this.emit('before-quit', before);
    if (before.defaultPrevented) return;
    const will = new Preventable();
    this.emit('will-quit', will);
    if (!will.defaultPrevented) this.exit();
  }

  exit(): void {
    this.#server?.close();
    const gone = current?.browser.then(async (browser) => await browser.close()) ?? Promise.resolve();
    void gone.finally(() => process.exit(0));
  }
}

const theApp = new App();
const lockHeld = theApp.claim();
export const app = only('app', theApp);

// --- what is asked for, and kept ---

type Handler = (event: object, ...args: unknown[]) => unknown;
const handlers = new Map<string, Handler>();
const ipcEvents = new EventEmitter();

export const ipcMain = only('ipcMain', {
  handle: (channel: string, handler: Handler) => void handlers.set(channel, handler),
  on: (channel: string, listener: (event: object) => void) => void ipcEvents.on(channel, listener),
});

export const MessageChannelMain = Channel;

let schemes: unknown = null;
let protocolHandler: (request: Request) => Promise<Response> | Response = () =>
  new Response(null, { status: 404 });

export const protocol = only('protocol', {
  registerSchemesAsPrivileged: (given: unknown) => {
    schemes = given;
    record({ call: 'protocol.registerSchemesAsPrivileged', schemes });
  },
});

type PermissionRequest = (
  contents: WebContents,
  permission: string,
  answer: (isGranted: boolean) => void,
) => void;
type PermissionCheck = (contents: WebContents | null, permission: string) => boolean;
type BeforeRequest = (details: { url: string }, answer: (response: { cancel: boolean }) => void) => void;
let permissionRequest: PermissionRequest = (_contents, _permission, answer) => answer(true);
let permissionCheck: PermissionCheck = () => true;
let beforeRequest: BeforeRequest = (_details, answer) => answer({ cancel: false });
let devicePermission: () => boolean = () => true;

export const session = only('session', {
  defaultSession: only('session.defaultSession', {
    setPermissionRequestHandler: (handler: PermissionRequest) => {
      permissionRequest = handler;
    },
    setPermissionCheckHandler: (handler: PermissionCheck) => {
      permissionCheck = handler;
    },
    setDevicePermissionHandler: (handler: () => boolean) => {
      devicePermission = handler;
    },
    webRequest: only('webRequest', {
      onBeforeRequest: (handler: BeforeRequest) => {
        beforeRequest = handler;
      },
    }),
    protocol: only('session.protocol', {
      handle: (_scheme: string, handler: typeof protocolHandler) => {
        protocolHandler = handler;
      },
    }),
  }),
});

export const screen = only('screen', {
  getAllDisplays: () => [{ workArea: { x: 0, y: 0, width: 1920, height: 1080 } }],
});

export const shell = only('shell', {
  openExternal: async (url: string) => record({ call: 'shell.openExternal', url }),
  showItemInFolder: (path: string) => record({ call: 'shell.showItemInFolder', path }),
});

export const Menu = only('Menu', {
  buildFromTemplate: (template: MenuItem[]) => template,
  setApplicationMenu: (template: MenuItem[]) => {
    menu = template;
    record({ call: 'Menu.setApplicationMenu', labels: labelsOf(template) });
  },
});

interface MenuItem {
  readonly label?: string;
  readonly role?: string;
  readonly submenu?: MenuItem[];
  readonly click?: () => void;
}
let menu: MenuItem[] = [];

function labelsOf(items: readonly MenuItem[]): string[] {
  return items.flatMap(({ label, role, submenu }) => [label ?? role ?? '-', ...labelsOf(submenu ?? [])]);
}

export class Notification extends EventEmitter {
  readonly #options: object;

  static isSupported(): boolean {
    return true;
  }

  constructor(options: { title: string; body: string }) {
    super();
    this.#options = options;
  }

  show(): void {
    record({ call: 'Notification.show', ...this.#options });
    notified(this);
  }
}
let lastNotification: Notification | null = null;
function notified(notification: Notification): void {
  lastNotification = notification;
}

/** The answers that the spec gave, in their order; a dialog without one waits for it. */
const answers: Answer[] = [];
const asked: ((answer: Answer) => void)[] = [];

async function ask(call: string, given: readonly unknown[]): Promise<Answer> {
  record({ call, options: given.find((value) => !(value instanceof BrowserWindow)) });
  const ready = answers.shift();
  return ready ?? (await new Promise<Answer>((resolve) => asked.push(resolve)));
}

export const dialog = only('dialog', {
  showOpenDialog: async (...given: unknown[]) => {
    const { path = null } = await ask('dialog.showOpenDialog', given);
    return { canceled: path === null, filePaths: path === null ? [] : [path] };
  },
  showSaveDialog: async (...given: unknown[]) => {
    const { path = null } = await ask('dialog.showSaveDialog', given);
    return { canceled: path === null, filePath: path ?? '' };
  },
  showMessageBox: async (...given: unknown[]) => ({
    response: (await ask('dialog.showMessageBox', given)).button ?? 0,
  }),
});

// --- the window ---

class Frame {
  readonly parent: Frame | null;
  readonly #url: () => string;
  readonly #page: () => Page | null;

  constructor(parent: Frame | null, url: () => string, page: () => Page | null = () => null) {
    this.parent = parent;
    this.#url = url;
    this.#page = page;
  }

  get url(): string {
    return fromChromium(this.#url());
  }

  postMessage(channel: string, _message: unknown, [port]: StandInPort[]): void {
    const page = this.#page();
    if (page === null || port === undefined) return;
    const id = nextPort++;
    ports.set(id, port);
    // Whoever reads a port of a page that is gone reads nothing; the app is told by the port's end.
    const run = (script: string): void => void page.evaluate(script).catch(() => undefined);
    run(`window.__standinPort(${JSON.stringify(channel)}, ${id})`);
    port.on('message', ({ data }: { data: unknown }) =>
      run(`window.__standinDeliver(${id}, ${JSON.stringify(data)})`),
    );
    port.on('close', () => {
      ports.delete(id);
      run(`window.__standinClose(${id})`);
    });
    port.start();
  }
}

let nextPort = 1;
const ports = new Map<number, StandInPort>();

class WebContents extends EventEmitter {
  readonly window: BrowserWindow;
  readonly mainFrame: Frame;
  openHandler: (details: { url: string }) => { action: string } = () => ({ action: 'allow' });

  constructor(window: BrowserWindow) {
    super();
    this.window = window;
    this.mainFrame = new Frame(
      null,
      () => window.page?.url() ?? '',
      () => window.page,
    );
  }

  getURL(): string {
    return this.mainFrame.url;
  }

  setWindowOpenHandler(handler: typeof this.openHandler): void {
    this.openHandler = handler;
  }

  reload(): void {
    record({ call: 'webContents.reload' });
    void this.window.reload();
  }
}

type FromPage =
  | { readonly type: 'invoke' | 'send'; readonly channel: string; readonly args: unknown[] }
  | { readonly type: 'port'; readonly id: number; readonly data: unknown };

export class BrowserWindow extends EventEmitter {
  readonly webContents = new WebContents(this);
  readonly browser: Promise<StandInBrowser>;
  page: Page | null = null;

  constructor(options: Record<string, unknown> & { webPreferences: { preload: string } }) {
    super();
    record({ call: 'new BrowserWindow', options });
    opened(this);
    this.browser = this.#start(options.webPreferences.preload);
    theApp.emit('web-contents-created', {}, this.webContents);
  }

  async #start(preload: string): Promise<StandInBrowser> {
    const { webContents } = this;
    const browser = await startBrowser({
      isCancelled: async (url) =>
        await new Promise((resolve) =>
          beforeRequest({ url }, ({ cancel }) => {
            if (cancel) record({ call: 'request cancelled', url });
            resolve(cancel);
          }),
        ),
      isNavigationPrevented: (url, isMainFrame) => {
        const event = Object.assign(new Preventable(), { url });
        webContents.emit('will-frame-navigate', event);
        if (isMainFrame) webContents.emit('will-navigate', event);
        if (event.defaultPrevented) record({ call: 'navigation prevented', url });
        return event.defaultPrevented;
      },
      answer: async (request) => await protocolHandler(request),
      opened: (url) => record({ call: 'window.open', url, ...webContents.openHandler({ url }) }),
    });
    const { context, page } = browser;
    this.page = page;
    await context.exposeBinding(
      '__standin',
      async (_source, message: FromPage) => await this.#fromPage(message),
    );
    // A preload that never comes to run is how a window that never paints looks from outside.
    const script = process.env['STANDIN_NEVER_PAINTS'] === undefined ? readFileSync(preload, 'utf8') : '';
    await context.addInitScript(world.replace('/* PRELOAD */', () => script));
    page.on('crash', () => {
      for (const port of ports.values()) port.close();
      webContents.emit('render-process-gone', {}, { reason: 'crashed', exitCode: 11 });
    });
    return browser;
  }

  async #fromPage(message: FromPage): Promise<{ error?: string }> {
    if (message.type === 'port') {
      ports.get(message.id)?.postMessage(message.data);
      return {};
    }
    return await ipcFrom(message, { sender: this.webContents, senderFrame: this.webContents.mainFrame });
  }

  async loadURL(url: string): Promise<void> {
    const { page, debuggingPort } = await this.browser;
    await page.goto(toChromium(url));
    this.emit('ready-to-show');
    process.send?.({ type: 'loaded', debuggingPort });
  }

  async reload(): Promise<void> {
    const { page } = await this.browser;
    for (const port of ports.values()) port.close();
    await page.reload().catch(() => undefined);
  }

  show(): void {
    record({ call: 'window.show' });
  }

  focus(): void {
    record({ call: 'window.focus' });
  }

  isFocused(): boolean {
    return false;
  }

  isMinimized(): boolean {
    return false;
  }

  isMaximized(): boolean {
    return false;
  }

  maximize(): void {
    record({ call: 'window.maximize' });
  }

  getNormalBounds(): object {
    return { x: 10, y: 20, width: 1000, height: 700 };
  }

  close(): void {
    this.emit('close', new Preventable());
    this.emit('closed');
    theApp.emit('window-all-closed');
  }
}

let current: BrowserWindow | null = null;
function opened(window: BrowserWindow): void {
  current = window;
}

async function ipcFrom(
  { type, channel, args }: { type: 'invoke' | 'send'; channel: string; args: readonly unknown[] },
  event: object,
): Promise<{ error?: string }> {
  if (type === 'send') {
    ipcEvents.emit(channel, event, ...args);
    return {};
  }
  try {
    const handler = handlers.get(channel);
    if (handler === undefined) throw new Error(`Nobody handles ${channel}.`);
    await handler(event, ...args);
    return {};
  } catch (error) {
    return { error: (error as Error).message };
  }
}

// --- what a spec orders ---

async function obey(order: Order): Promise<unknown> {
  const window = current;
  if (window === null) throw new Error('There is no window.');
  switch (order.do) {
    case 'invoke-as': {
      const main = window.webContents.mainFrame;
      const frames = {
        'own page': main,
        'frame in the page': new Frame(main, () => 'weightroom://app/'),
        'page of another origin': new Frame(null, () => 'https://example.com/'),
        'another page': new Frame(null, () => 'weightroom://app/'),
        'frame that is gone': null,
      };
      const sender = order.who === 'another window' ? new WebContents(window) : window.webContents;
      const senderFrame = order.who === 'another window' ? sender.mainFrame : frames[order.who];
      return await ipcFrom({ type: 'invoke', channel: order.channel, args: [] }, { sender, senderFrame });
    }
    case 'ask-permission':
      return {
        request: await new Promise((resolve) =>
          permissionRequest(window.webContents, order.permission, resolve),
        ),
        check: permissionCheck(window.webContents, order.permission),
        device: devicePermission(),
      };
    case 'fetch': {
      const response = await protocolHandler(new Request(order.url, { method: order.method ?? 'GET' }));
      return { status: response.status, headers: Object.fromEntries(response.headers) };
    }
    case 'answer-dialog': {
      const waiting = asked.shift();
      if (waiting === undefined) answers.push(order.answer);
      else waiting(order.answer);
      return null;
    }
    case 'click-menu': {
      const item = menu.flatMap(({ submenu }) => submenu ?? []).find(({ label }) => label === order.label);
      if (item?.click === undefined) throw new Error(`The menu has no ${order.label}.`);
      item.click();
      return null;
    }
    case 'click-notification':
      lastNotification?.emit('click');
      return null;
    case 'crash-page':
      window.webContents.emit('render-process-gone', {}, { reason: 'crashed', exitCode: 11 });
      return null;
    case 'crash-helper':
      theApp.emit('child-process-gone', {}, { type: 'GPU', reason: 'crashed', exitCode: 5 });
      return null;
    case 'move-window':
      window.emit('move');
      return null;
    case 'close-window':
      window.close();
      return null;
  }
}

process.on('message', (message: { id: number; order: Order }) => {
  obey(message.order).then(
    (value) => process.send?.({ type: 'done', id: message.id, value }),
    (error: unknown) => process.send?.({ type: 'done', id: message.id, error: String(error) }),
  );
});
// The spec is gone: so is the app.
process.on('disconnect', () => theApp.quit());
