/**
 * One connection that speaks the contract, whatever carries its messages. It keeps one client from taking more
 * than its share: calls beyond a few dozen at a time wait in the transport, streams are counted, and a message
 * that is not one ends the connection. When it closes, everything that the client owned is stopped.
 */
import type { AnyContractRouter } from '@orpc/contract';
import type { Router } from '@orpc/server';
import { RPCHandler, type MinimalWebsocket } from '@orpc/server/websocket';
import type { AppStatus } from '../contract/app-schemas.ts';

export interface ConnectionLimits {
  /** Calls that are being answered at the same time; more are not taken in until one is done. */
  readonly maxCalls: number;
  /** Streams that are open at the same time; one more ends the connection. */
  readonly maxStreams: number;
}

export const defaultLimits: ConnectionLimits = { maxCalls: 64, maxStreams: 128 };

export interface Carrier {
  readonly transport: AppStatus['transport'];
  /** Resolves when the client's side can take more. */
  readonly send: (message: string) => Promise<void>;
  /** Stops taking in messages, or goes on. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** The connection is of no use any more. */
  readonly abandon: (reason: string) => void;
}

/** What a connection brings with it. */
export interface ConnectionContext {
  readonly transport: AppStatus['transport'];
  /** To be called when the answer is a stream, which goes on for as long as its reader likes. */
  readonly streaming: () => void;
}

export class RpcServer {
  readonly #handler: RPCHandler<ConnectionContext>;
  readonly #limits: ConnectionLimits;

  constructor(
    router: Router<AnyContractRouter, ConnectionContext>,
    limits: ConnectionLimits = defaultLimits,
  ) {
    this.#limits = limits;
    this.#handler = new RPCHandler<ConnectionContext>(router, {
      interceptors: [
        async (call) => {
          const result = await call.next();
          if (isStream(result.response?.body)) call.context.streaming();
          return result;
        },
      ],
    });
  }

  connect(carrier: Carrier): RpcConnection {
    return new RpcConnection(this.#handler, carrier, this.#limits);
  }
}

export class RpcConnection {
  readonly #handler: RPCHandler<ConnectionContext>;
  readonly #carrier: Carrier;
  readonly #limits: ConnectionLimits;
  readonly #peer: MinimalWebsocket;
  #calls = 0;
  #streams = 0;
  #isPaused = false;
  #open = true;

  constructor(handler: RPCHandler<ConnectionContext>, carrier: Carrier, limits: ConnectionLimits) {
    this.#handler = handler;
    this.#carrier = carrier;
    this.#limits = limits;
    // The library's peer waits for what this returns, and so a slow reader slows its streams down.
    const send = async (message: string): Promise<void> => {
      if (this.#open) await carrier.send(message);
    };
    // eslint-disable-next-line @typescript-eslint/no-misused-promises -- see above: it is awaited
    this.#peer = { send, addEventListener: () => undefined };
  }

  /** Takes one message. Never throws; what can't be a message ends the connection. */
  receive(message: string): void {
    if (!this.#open) return;
    const kind = kindOf(message);
    if (kind === 'malformed') {
      this.#abandon('a message that is not one');
      return;
    }
    const end = kind === 'call' ? this.#begin() : null;
    const context = { transport: this.#carrier.transport, streaming: () => end?.streaming() };
    this.#handler
      .message(this.#peer, message, { context })
      .catch(() => this.#abandon('a message that could not be answered'))
      .finally(() => end?.gone());
  }

  /** The client is gone. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#handler.close(this.#peer);
  }

  /** Counts a call until its answer has left, or until that turns out to be a stream. */
  #begin(): { streaming: () => void; gone: () => void } {
    let isStreaming = false;
    this.#calls += 1;
    this.#weigh();
    return {
      streaming: () => {
        isStreaming = true;
        this.#calls -= 1;
        this.#streams += 1;
        this.#weigh();
      },
      gone: () => {
        if (isStreaming) this.#streams -= 1;
        else this.#calls -= 1;
        this.#weigh();
      },
    };
  }

  #weigh(): void {
    if (this.#streams > this.#limits.maxStreams) this.#abandon('too many streams');
    const isFull = this.#calls >= this.#limits.maxCalls;
    if (isFull === this.#isPaused || !this.#open) return;
    this.#isPaused = isFull;
    if (isFull) this.#carrier.pause();
    else this.#carrier.resume();
  }

  #abandon(reason: string): void {
    if (!this.#open) return;
    this.close();
    this.#carrier.abandon(reason);
  }
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}

/**
 * The library's messages: an id, a type where it is not a call, and a payload, which of a call has the path.
 * A body that does not fit is the schema's to refuse, not the connection's.
 */
function kindOf(text: string): 'call' | 'other' | 'malformed' {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return 'malformed';
  }
  if (typeof message !== 'object' || message === null) return 'malformed';
  const { i: id, t: type, p: payload } = message as { i?: unknown; t?: unknown; p?: unknown };
  if (typeof id !== 'string' && typeof id !== 'number') return 'malformed';
  if (type === abortType) return 'other';
  // Nothing in the contract takes a stream as its input.
  if (type !== undefined && type !== callType) return 'malformed';
  if (typeof payload !== 'object' || payload === null) return 'malformed';
  const { u: url, h: headers, m: method } = payload as { u?: unknown; h?: unknown; m?: unknown };
  if (typeof url !== 'string' || !/^\/[A-Za-z/]+$/.test(url)) return 'malformed';
  if (headers !== undefined && (typeof headers !== 'object' || headers === null)) return 'malformed';
  return method === undefined || method === 'POST' ? 'call' : 'malformed';
}

const callType = 1;
const abortType = 4;
