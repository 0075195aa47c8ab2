/**
 * One way to the host, from open to closed: the desktop's MessagePort where the preload offers one, a
 * WebSocket otherwise. A transport that closed never opens again; connection.svelte.ts opens another.
 */
import { createORPCClient } from '@orpc/client';
import { RPCLink as PortLink } from '@orpc/client/message-port';
import { RPCLink as SocketLink } from '@orpc/client/websocket';
import type { DeskClient } from '../../src/contract/contract.ts';
import type { DesktopClient } from '../../src/contract/desktop.ts';
import { exchangeToken, isSignedIn } from './session.ts';

export interface Transport {
  readonly client: DeskClient;
  /** What only the desktop app can do; null in a browser. */
  readonly desktop: DesktopClient['desktop'] | null;
  /** Resolves when the host went away. */
  readonly closed: Promise<void>;
  close(): void;
}

export type OpenTransport = () => Promise<Transport>;

/** The host is there and does not let this page in. */
export class NotSignedInError extends Error {}

/** The preload's one function: asks the desktop for a port, which arrives as a message to this window. */
interface DesktopDoor {
  connect(): unknown;
}

/** What the preload posts to this window, with the port. */
export const portMessage = 'weightroom:port';

export const openTransport: OpenTransport = () => {
  const door = (globalThis as { readonly weightroom?: DesktopDoor }).weightroom;
  return door === undefined ? openSocket() : openPort(door);
};

async function openSocket(): Promise<Transport> {
  await exchangeToken();
  const address = new URL('/rpc', location.href);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  address.hash = '';
  const socket = new WebSocket(address);
  const closed = new Promise<void>((resolve) =>
    socket.addEventListener('close', () => resolve(), { once: true }),
  );
  const isOpen = await new Promise<boolean>((resolve) => {
    socket.addEventListener('open', () => resolve(true), { once: true });
    socket.addEventListener('close', () => resolve(false), { once: true });
  });
  if (!isOpen) {
    // A browser does not tell why a socket was refused; this asks.
    if (!(await isSignedIn())) throw new NotSignedInError();
    throw new Error('the host refused the connection');
  }
  return {
    client: createORPCClient<DeskClient>(new SocketLink({ websocket: socket })),
    desktop: null,
    closed,
    close: () => socket.close(),
  };
}

const portWaitMs = 5000;

async function openPort(door: DesktopDoor): Promise<Transport> {
  const arrived = new Promise<MessagePort>((resolve, reject) => {
    const timer = setTimeout(() => {
      removeEventListener('message', take);
      reject(new Error('the desktop gave no port'));
    }, portWaitMs);
    function take(event: MessageEvent): void {
      const [port] = event.ports;
      if (event.source !== window || event.data !== portMessage || port === undefined) return;
      clearTimeout(timer);
      removeEventListener('message', take);
      resolve(port);
    }
    addEventListener('message', take);
  });
  await door.connect();
  const port = await arrived;
  const closed = new Promise<void>((resolve) => port.addEventListener('close', () => resolve()));
  const client = createORPCClient<DesktopClient>(new PortLink({ port }));
  port.start();
  return { client, desktop: client.desktop, closed, close: () => port.close() };
}
