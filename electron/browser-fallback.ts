/** The same desk in the person's browser, for when the window is of no use, or because they like it better. */
import { dialog } from 'electron';
import { FailureError } from '../src/contract/failure.ts';
import { hasDisplay, openInBrowser, type OpenedPage } from '../src/host/browser-opening.ts';
import type { RpcServer } from '../src/host/rpc-connection.ts';
import { shareDesk, type ServedDesk } from '../src/host/serving.ts';
import type { Workstation } from '../src/host/workstation.ts';
import { join } from 'node:path';

type Environment = Readonly<Record<string, string | undefined>>;

export class BrowserFallback {
  readonly #rpc: RpcServer;
  readonly #env: Environment;
  readonly #workstation: Workstation;
  #served: ServedDesk | null = null;
  #page: OpenedPage | null = null;

  constructor(rpc: RpcServer, env: Environment, workstation: Workstation) {
    this.#rpc = rpc;
    this.#env = env;
    this.#workstation = workstation;
  }

  open(): void {
    this.#open().catch((error: unknown) => {
      if (!(error instanceof FailureError)) this.#workstation.reportBug(error);
      else void dialog.showMessageBox({ type: 'warning', message: error.message });
    });
  }

  async close(): Promise<void> {
    await this.#page?.remove();
    await this.#served?.close();
  }

  async #open(): Promise<void> {
    const url = await this.#address();
    console.log(`Weightroom is at ${url}`);
    if (!hasDisplay(this.#env)) return;
    const path = join(this.#workstation.paths.state, 'open-app.html');
    this.#page = await openInBrowser(url, path, () => {
      void dialog.showMessageBox({ type: 'info', message: `Open this in a browser: ${url}` });
    });
  }

  async #address(): Promise<string> {
    if (this.#served !== null) return this.#served.url;
    const serving = await shareDesk(this.#rpc, { env: this.#env, port: null });
    if (serving.kind === 'other') return serving.instance.url;
    this.#served = serving.desk;
    return serving.desk.url;
  }
}
