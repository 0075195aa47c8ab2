/**
 * A pair of pipes as a message port: one message a line, so a message is text without a line break, as JSON
 * is. What the contract's own port adapters take on both sides.
 */
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { PortLike } from './message-port.ts';

export class LinePort implements PortLike {
  readonly #input: Readable;
  readonly #output: Writable;

  constructor(input: Readable, output: Writable) {
    this.#input = input;
    this.#output = output;
    // Writing to somebody who is gone: that they are gone is told by the end of the input.
    output.on('error', () => undefined);
  }

  on(event: string, listener: (event?: { data: unknown }) => void): this {
    if (event === 'close') this.#input.once('close', () => listener());
    if (event === 'message') createInterface({ input: this.#input }).on('line', (data) => listener({ data }));
    return this;
  }

  postMessage(message: unknown): void {
    this.#output.write(`${String(message)}\n`);
  }

  /** It reads from its first listener on. */
  start(): void {
    // Nothing is to be done.
  }

  close(): void {
    this.#output.end();
  }
}
