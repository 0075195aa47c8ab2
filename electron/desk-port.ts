/**
 * The contract for the window's page: one MessagePort, given to the main frame of the app's own window while it
 * shows the app's own page, and to nobody else. A page that asks again has lost its port or was loaded anew, so
 * the earlier one is closed.
 */
import { ipcMain, MessageChannelMain, type IpcMainInvokeEvent, type WebContents } from 'electron';
import { servePort } from '../src/host/message-port.ts';
import type { RpcServer } from '../src/host/rpc-connection.ts';
import { isPageUrl } from './app-protocol.ts';
import { channels } from './channels.ts';

type Sender = Pick<IpcMainInvokeEvent, 'sender' | 'senderFrame'>;

/** The contents of the app's window; null while there is none. */
export type OwnContents = () => WebContents | null;

/** A frame can be gone by the time its message is looked at; then it is nobody's. */
export function isOwnPage({ sender, senderFrame }: Sender, own: OwnContents): boolean {
  if (senderFrame === null || sender !== own()) return false;
  return senderFrame.parent === null && senderFrame === sender.mainFrame && isPageUrl(senderFrame.url);
}

export function serveDeskPort(rpc: RpcServer, own: OwnContents): void {
  let close = (): void => undefined;
  ipcMain.handle(channels.connect, (event) => {
    const { senderFrame } = event;
    if (senderFrame === null || !isOwnPage(event, own))
      throw new Error('Only Weightroom’s own page is served.');
    close();
    const { port1, port2 } = new MessageChannelMain();
    servePort(rpc, port1);
    close = () => port1.close();
    senderFrame.postMessage(channels.port, null, [port2]);
  });
}

/** `listener` is called each time that a page of ours shows its first content. */
export function onPainted(own: OwnContents, listener: () => void): void {
  ipcMain.on(channels.painted, (event) => {
    if (isOwnPage(event, own)) listener();
  });
}
