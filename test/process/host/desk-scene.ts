/** A desk of its own for one test: its folders, its Workstation, and clients over each transport. */
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { createORPCClient } from '@orpc/client';
import { RPCLink as PortLink } from '@orpc/client/message-port';
import { RPCLink as SocketLink } from '@orpc/client/websocket';
import { createRouterClient } from '@orpc/server';
import { onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import type { DeskClient } from '../../../src/contract/contract.ts';
import { BrowserHost } from '../../../src/host/browser-host.ts';
import { deskRouter } from '../../../src/host/desk-router.ts';
import { servePort } from '../../../src/host/message-port.ts';
import { RpcServer } from '../../../src/host/rpc-connection.ts';
import { Workstation, type WorkstationOptions } from '../../../src/host/workstation.ts';
import { createDomain } from '../../../src/store/domain.ts';
import { CheckpointFolder, everyDtype } from '../../fixtures/checkpoint.ts';
import { removeFolder } from '../../fixtures/store.ts';

/** Long enough that a test which passes has not waited for it. */
const never = 2 ** 31 - 1;

export type Transport = 'in-process' | 'message-port' | 'websocket';
export const transports: readonly Transport[] = ['in-process', 'message-port', 'websocket'];

export class DeskScene {
  readonly base: string;
  readonly env: Readonly<Record<string, string>>;
  readonly renderer: string;

  constructor() {
    this.base = realpathSync(mkdtempSync(join(tmpdir(), 'weightroom-desk-')));
    onTestFinished(() => removeFolder(this.base));
    const folder = (name: string): string => {
      mkdirSync(join(this.base, name));
      return join(this.base, name);
    };
    this.env = {
      HOME: folder('home'),
      XDG_CONFIG_HOME: folder('config'),
      XDG_STATE_HOME: folder('state'),
      XDG_DATA_HOME: folder('data'),
      XDG_CACHE_HOME: folder('cache'),
    };
    this.renderer = folder('renderer');
  }

  path(...names: string[]): string {
    return join(this.base, ...names);
  }

  get settingsPath(): string {
    return this.path('config', 'weightroom', 'settings.json');
  }

  writeSettings(text: string): void {
    mkdirSync(dirname(this.settingsPath), { recursive: true });
    writeFileSync(this.settingsPath, text);
  }

  /** A store that exists, and is not known yet. */
  async store(name = 'store'): Promise<string> {
    const created = await createDomain({ root: this.path(name) });
    if (!created.ok) throw new Error(created.failure.message);
    return created.value.domain.root;
  }

  checkpoint(name = 'tiny'): CheckpointFolder {
    return new CheckpointFolder(this.path(name)).weights('model.safetensors', everyDtype());
  }

  /** By default it sees what the kernel tells and nothing else. */
  async desk(options: Partial<WorkstationOptions> = {}): Promise<Desk> {
    const workstation = await Workstation.open({
      env: this.env,
      pollMs: never,
      sampleBytes: 1024 ** 2,
      ...options,
    });
    const desk = new Desk(this, workstation);
    onTestFinished(async () => await desk.close());
    return desk;
  }

  /** Pages as a build would leave them. */
  pages(): this {
    mkdirSync(join(this.renderer, 'assets'));
    writeFileSync(join(this.renderer, 'index.html'), '<!doctype html><title>desk</title>');
    writeFileSync(join(this.renderer, 'assets', 'main-abcd1234.js'), 'export {};');
    writeFileSync(join(this.renderer, 'assets', 'main-abcd1234.js.map'), '{}');
    return this;
  }
}

export class Desk {
  readonly workstation: Workstation;
  readonly rpc: RpcServer;
  readonly #scene: DeskScene;
  readonly #router;
  #host: BrowserHost | null = null;
  #closings: (() => Promise<void> | void)[] = [];

  constructor(scene: DeskScene, workstation: Workstation) {
    this.#scene = scene;
    this.workstation = workstation;
    this.#router = deskRouter(workstation);
    this.rpc = new RpcServer(this.#router);
  }

  async host(): Promise<BrowserHost> {
    this.#host ??= await BrowserHost.start({ rpc: this.rpc, rendererFolder: this.#scene.renderer, port: 0 });
    return this.#host;
  }

  inProcess(): DeskClient {
    return createRouterClient(this.#router, { context: { transport: 'in-process' } });
  }

  port(): { client: DeskClient; port: MessagePort } {
    const { port1, port2 } = new MessageChannel();
    servePort(this.rpc, port2);
    this.#closings.push(() => port1.close());
    const client: DeskClient = createORPCClient(new PortLink({ port: port1 }));
    port1.start();
    return { client, port: port1 };
  }

  async socket(): Promise<{ client: DeskClient; socket: WebSocket }> {
    const host = await this.host();
    const socket = new WebSocket(`ws://127.0.0.1:${host.port}/rpc`, {
      headers: { cookie: await signIn(host) },
      origin: `http://127.0.0.1:${host.port}`,
    });
    this.#closings.push(() => socket.terminate());
    await new Promise<void>((resolve, reject) => socket.once('open', resolve).once('error', reject));
    const link = new SocketLink({ websocket: socket as unknown as globalThis.WebSocket });
    return { client: createORPCClient(link), socket };
  }

  async client(transport: Transport): Promise<DeskClient> {
    if (transport === 'in-process') return this.inProcess();
    return transport === 'message-port' ? this.port().client : (await this.socket()).client;
  }

  async close(): Promise<void> {
    for (const closing of this.#closings.splice(0)) await closing();
    await this.#host?.close();
    this.#host = null;
    await this.workstation.close();
  }
}

/** The cookie that the token buys. */
export async function signIn(host: BrowserHost): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${host.port}/session`, {
    method: 'POST',
    body: JSON.stringify({ token: host.session.token }),
  });
  if (response.status !== 204) throw new Error(`signing in gave ${response.status}`);
  return (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
}

/** Reads a stream until it ends or `isEnough` says so; then leaves it. */
export async function readUntil<T>(
  events: AsyncIterable<T>,
  isEnough: (event: T) => boolean = () => false,
): Promise<T[]> {
  const read: T[] = [];
  for await (const event of events) {
    read.push(event);
    if (isEnough(event)) break;
  }
  return read;
}
