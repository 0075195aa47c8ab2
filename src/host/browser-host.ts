/**
 * The desk for a browser, on this machine or at the end of an SSH tunnel: the built pages over HTTP, and the
 * contract over a WebSocket. Loopback only.
 *
 * Every request is checked for the host that it addresses and the origin that it comes from (request-guard).
 * The pages themselves are no secret; everything else takes the cookie that the token buys (browser-session).
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { BrowserSession } from './browser-session.ts';
import { pageHeaders } from './page-headers.ts';
import { refusalOf, upgradeRefusalOf } from './request-guard.ts';
import type { RpcServer } from './rpc-connection.ts';
import { StaticFiles } from './static-files.ts';
import { serveSocket } from './web-socket.ts';

const loopback = '127.0.0.1';
/** Of one message. A request is a few paths; nothing else is ever sent here. */
const maxMessageBytes = 1024 ** 2;
const maxTokenBytes = 4096;
const maxSockets = 64;
const maxConnections = 512;
const goodbyeMs = 1000;

export const buildAdvice =
  'The pages are not built. Run `npm run build:renderer` in the folder of Weightroom, then load this page again.';

export interface BrowserHostOptions {
  readonly rpc: RpcServer;
  readonly rendererFolder: string;
  /** 0: any that is free. */
  readonly port: number;
}

export class BrowserHost {
  readonly session = new BrowserSession();
  readonly #rpc: RpcServer;
  readonly #files: StaticFiles;
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
    clientTracking: true,
  });
  #port = 0;

  private constructor({ rpc, rendererFolder }: BrowserHostOptions) {
    this.#rpc = rpc;
    this.#files = new StaticFiles(rendererFolder);
    this.#server = createServer({ headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 });
    this.#server.maxConnections = maxConnections;
    this.#server.on('request', (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    this.#server.on('clientError', (_error, socket) => socket.destroy());
  }

  /** Throws a SystemError (EADDRINUSE, EACCES) where the port can't be had. */
  static async start(options: BrowserHostOptions): Promise<BrowserHost> {
    const host = new BrowserHost(options);
    await host.#files.read();
    host.#server.listen({ host: loopback, port: options.port });
    await once(host.#server, 'listening');
    host.#port = (host.#server.address() as AddressInfo).port;
    host.session.listensOn(host.#port);
    return host;
  }

  get port(): number {
    return this.#port;
  }

  /** With the token in it: whoever has it is let in. */
  get url(): string {
    return `http://${loopback}:${this.#port}/#token=${this.session.token}`;
  }

  get hasPages(): boolean {
    return this.#files.isBuilt;
  }

  /** Resolves when nothing listens and nobody is connected any more. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets.clients) socket.close(1001, 'the host ends');
    const timer = setTimeout(() => {
      for (const socket of this.#sockets.clients) socket.terminate();
      this.#server.closeAllConnections();
    }, goodbyeMs);
    this.#server.closeIdleConnections();
    await closed;
    clearTimeout(timer);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    setSecurityHeaders(response, request.headers.host ?? '');
    const refusal = refusalOf(request.headers, method);
    if (refusal !== null) return answerText(response, 403, refusal);
    const [path = '/'] = url.split(/[?#]/, 1);
    if (path === '/session') return await this.#answerSession(request, response);
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      return answerText(response, 405, 'There is nothing to change here.');
    }
    if (!this.#files.isBuilt) await this.#files.read();
    const file = this.#files.get(path);
    if (file === undefined) {
      const isMissing = path === '/' && !this.#files.isBuilt;
      return isMissing
        ? answerText(response, 503, buildAdvice)
        : answerText(response, 404, 'There is nothing here.');
    }
    const caching = file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache';
    response.writeHead(200, {
      'Content-Type': file.contentType,
      'Content-Length': file.body.length,
      'Cache-Control': caching,
    });
    response.end(method === 'HEAD' ? undefined : file.body);
  }

  /** GET: am I signed in? POST: the token for a cookie. */
  async #answerSession(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('Cache-Control', 'no-store');
    if (request.method === 'GET') {
      const isSignedIn = this.session.isSignedIn(request.headers.cookie);
      return isSignedIn ? answerNothing(response) : answerText(response, 401, signInAdvice);
    }
    if (request.method !== 'POST') {
      response.setHeader('Allow', 'GET, POST');
      return answerText(response, 405, 'A session is asked for with GET and begun with POST.');
    }
    const body = await smallBody(request);
    if (body === null) return answerText(response, 413, 'A token is shorter than this.');
    if (!this.session.accepts(tokenIn(body))) return answerText(response, 401, signInAdvice);
    response.setHeader('Set-Cookie', this.session.setCookie);
    answerNothing(response);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refusal = upgradeRefusalOf(request.headers);
    if (refusal !== null) return refuseUpgrade(socket, 403);
    if (request.url !== '/rpc') return refuseUpgrade(socket, 404);
    if (!this.session.isSignedIn(request.headers.cookie)) return refuseUpgrade(socket, 401);
    if (this.#sockets.clients.size >= maxSockets) return refuseUpgrade(socket, 503);
    this.#sockets.handleUpgrade(request, socket, head, (opened: WebSocket) => {
      serveSocket(this.#rpc, opened);
    });
  }
}

const signInAdvice =
  'This address needs the token that Weightroom printed when it started. Run `weightroom serve` again: it prints the whole address.';

/** `host` has been typed by the client, but what does not name this machine is refused all the same. */
function setSecurityHeaders(response: ServerResponse, host: string): void {
  const socket = /^[\w.[\]:]+$/.test(host) ? [`ws://${host}`] : [];
  for (const [name, value] of Object.entries(pageHeaders(socket))) response.setHeader(name, value);
}

function answerText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' });
  response.end(`${text}\n`);
}

function answerNothing(response: ServerResponse): void {
  response.writeHead(204);
  response.end();
}

function refuseUpgrade(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

/** Null where it is too long; the rest of it is not read. */
async function smallBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxTokenBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** `{"token": "..."}`. */
function tokenIn(body: string): unknown {
  try {
    return (JSON.parse(body) as { readonly token?: unknown } | null)?.token;
  } catch {
    return undefined;
  }
}
