/**
 * A host that tells what a test wants it to: the real browser host and the real transport, with a router over
 * plain data in place of the Workstation. For states that are hard to bring about for real.
 */
import { resolve } from 'node:path';
import { BrowserHost } from '../../../src/host/browser-host.ts';
import { RpcServer } from '../../../src/host/rpc-connection.ts';
import type { FakeDesk } from './desk.ts';
import { fakeRouter } from './router.ts';

export const rendererFolder = resolve(import.meta.dirname, '../../../dist/renderer');

/** Serves `desk` until it is closed. `port`: 0 for any. */
export async function serveFake(desk: FakeDesk, port = 0): Promise<BrowserHost> {
  return await BrowserHost.start({ rpc: new RpcServer(fakeRouter(desk)), rendererFolder, port });
}
