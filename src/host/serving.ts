/**
 * `weightroom serve` without its words: one browser host over one Workstation, found again by whoever starts a
 * second one, and taken down in order.
 */
import { join } from 'node:path';
import { isSystemError } from '#native';
import { failure, FailureError } from '../contract/failure.ts';
import { BrowserHost } from './browser-host.ts';
import { claimInstance, releaseInstance, type BrowserInstance } from './browser-instance.ts';
import { openInBrowser, type OpenedPage } from './browser-opening.ts';
import { defaultPaths, type Environment } from './default-paths.ts';
import { deskRouter } from './desk-router.ts';
import { installationFolder } from './protected-roots.ts';
import { RpcServer } from './rpc-connection.ts';
import { Workstation } from './workstation.ts';

/** Where a browser finds it if nothing else is said and nobody else has it. */
export const defaultPort = 7411;

/** Where `npm ci` puts the pages. */
export const builtPages = join(installationFolder, 'dist', 'renderer');

export interface ServingOptions {
  readonly env: Environment;
  /** Null: the default one, or any other where that is taken. */
  readonly port: number | null;
  readonly rendererFolder?: string;
}

export type Serving =
  | { readonly kind: 'first'; readonly desk: ServedDesk }
  | { readonly kind: 'other'; readonly instance: BrowserInstance };

/** Throws FailureError where the port can't be had. */
export async function serveDesk(options: ServingOptions): Promise<Serving> {
  return await claim(options, async () => {
    const workstation = await Workstation.open({ env: options.env });
    const end = async (): Promise<void> => await workstation.close();
    return { rpc: new RpcServer(deskRouter(workstation)), end };
  });
}

/** The same for a desk that somebody else owns and ends: the desktop app, where its window does not work. */
export async function shareDesk(rpc: RpcServer, options: ServingOptions): Promise<Serving> {
  return await claim(options, async () => ({ rpc, end: async () => undefined }));
}

interface OwnedDesk {
  readonly rpc: RpcServer;
  readonly end: () => Promise<void>;
}

async function claim(options: ServingOptions, open: () => Promise<OwnedDesk>): Promise<Serving> {
  const { env, port, rendererFolder = builtPages } = options;
  const { state } = defaultPaths(env);
  const instancePath = join(state, 'browser-host.json');
  const claimed = await claimInstance(instancePath, async () => {
    const { rpc, end } = await open();
    try {
      return new ServedDesk(await startHost(rpc, rendererFolder, port), end, state, instancePath);
    } catch (error) {
      await end();
      throw error;
    }
  });
  return claimed.kind === 'first' ? { kind: 'first', desk: claimed.host } : claimed;
}

async function startHost(rpc: RpcServer, rendererFolder: string, port: number | null): Promise<BrowserHost> {
  try {
    return await BrowserHost.start({ rpc, rendererFolder, port: port ?? defaultPort });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    if (port === null && error.code === 'EADDRINUSE') {
      return await BrowserHost.start({ rpc, rendererFolder, port: 0 });
    }
    throw new FailureError(portFailure(port ?? defaultPort, error.code));
  }
}

function portFailure(port: number, code: string): ReturnType<typeof failure> {
  const why =
    code === 'EADDRINUSE'
      ? 'another program listens there'
      : `it can't be had (${code}); ports below 1024 are root's`;
  return failure(
    'configuration',
    'invalid_config',
    `Port ${port} of 127.0.0.1 is not free: ${why}. Choose another one with --port, or --port 0 for any.`,
    { retryable: true, details: { port } },
  );
}

export class ServedDesk {
  readonly #host: BrowserHost;
  readonly #end: () => Promise<void>;
  readonly #stateFolder: string;
  readonly #instancePath: string;
  #page: OpenedPage | null = null;

  constructor(host: BrowserHost, end: () => Promise<void>, stateFolder: string, instancePath: string) {
    this.#host = host;
    this.#end = end;
    this.#stateFolder = stateFolder;
    this.#instancePath = instancePath;
  }

  get url(): string {
    return this.#host.url;
  }

  get port(): number {
    return this.#host.port;
  }

  get hasPages(): boolean {
    return this.#host.hasPages;
  }

  async openInBrowser(onFailure: () => void): Promise<void> {
    this.#page = await openInBrowser(this.url, join(this.#stateFolder, 'open-in-browser.html'), onFailure);
  }

  /** First nobody new gets in, then what runs is ended, then the record goes. */
  async close(): Promise<void> {
    await this.#host.close();
    await this.#end();
    await this.#page?.remove();
    await releaseInstance(this.#instancePath);
  }
}
