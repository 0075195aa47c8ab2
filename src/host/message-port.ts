/**
 * The contract over a MessagePort: the desktop app's page, or a worker. Takes Node's ports and Electron's,
 * which hand over their messages in two ways.
 */
import type { RpcConnection, RpcServer } from './rpc-connection.ts';

/** What both kinds of port have. Electron's gives an event with `data`, Node's the message itself. */
export interface PortLike {
  on(event: 'message', listener: (message: unknown) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  postMessage(message: unknown): void;
  start(): void;
  close(): void;
}

/** Serves until either side closes the port. */
export function servePort(server: RpcServer, port: PortLike): RpcConnection {
  // A port can't be paused: what comes while enough calls are in work waits here.
  const waiting: string[] = [];
  let isPaused = false;
  const connection = server.connect({
    transport: 'message-port',
    send: async (message) => port.postMessage(message),
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
      for (let next = waiting.shift(); next !== undefined; next = isPaused ? undefined : waiting.shift()) {
        connection.receive(next);
      }
    },
    abandon: () => port.close(),
  });
  port.on('message', (message) => {
    const text = textOf(message);
    if (isPaused) waiting.push(text);
    else connection.receive(text);
  });
  port.on('close', () => connection.close());
  port.start();
  return connection;
}

/** What is no text is no message either, and is refused as one. */
function textOf(message: unknown): string {
  if (typeof message === 'string') return message;
  const data = (message as { readonly data?: unknown } | null)?.data;
  return typeof data === 'string' ? data : '';
}
