/** The contract over one WebSocket. A client that does not answer for a while is gone. */
import type { RawData, WebSocket } from 'ws';
import type { RpcServer } from './rpc-connection.ts';

const pingEveryMs = 20_000;
const closeCodes = { policy: 1008, unsupported: 1003 } as const;
/** A client that does not finish the goodbye is cut off. */
const goodbyeMs = 1000;

export function serveSocket(server: RpcServer, socket: WebSocket): void {
  const leave = (code: number, reason: string): void => {
    socket.close(code, reason);
    setTimeout(() => socket.terminate(), goodbyeMs).unref();
  };
  const connection = server.connect({
    transport: 'websocket',
    send: (message) =>
      // A socket that is gone takes nothing, and tells so by its end.
      new Promise((resolve) => socket.send(message, () => resolve())),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    abandon: (reason) => leave(closeCodes.policy, reason),
  });
  let isAlive = true;
  const pinging = setInterval(() => {
    if (!isAlive) return socket.terminate();
    isAlive = socket.isPaused;
    socket.ping();
  }, pingEveryMs);
  pinging.unref();
  socket.on('pong', () => {
    isAlive = true;
  });
  socket.on('message', (data, isBinary) => {
    isAlive = true;
    if (isBinary) leave(closeCodes.unsupported, 'text only');
    else connection.receive(textOf(data));
  });
  // Whatever is wrong with it (a message that is too long, for one), its end follows.
  socket.on('error', () => undefined);
  socket.on('close', () => {
    clearInterval(pinging);
    connection.close();
  });
}

function textOf(data: RawData): string {
  if (Array.isArray(data)) return Buffer.concat(data).toString('utf8');
  return Buffer.isBuffer(data) ? data.toString('utf8') : Buffer.from(data).toString('utf8');
}
