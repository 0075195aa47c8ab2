/** Electron's message ports between the main process and a page, over Node's events and a page's own ports. */
import { EventEmitter } from 'node:events';

export class StandInPort extends EventEmitter {
  #peer: StandInPort | null = null;
  #isStarted = false;
  #isClosed = false;
  readonly #waiting: unknown[] = [];

  static pair(): [StandInPort, StandInPort] {
    const [one, other] = [new StandInPort(), new StandInPort()];
    one.#peer = other;
    other.#peer = one;
    return [one, other];
  }

  postMessage(data: unknown): void {
    this.#peer?.deliver(data);
  }

  start(): void {
    this.#isStarted = true;
    for (const data of this.#waiting.splice(0)) this.emit('message', { data, ports: [] });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.emit('close');
    this.#peer?.close();
  }

  deliver(data: unknown): void {
    if (this.#isClosed) return;
    if (this.#isStarted) this.emit('message', { data, ports: [] });
    else this.#waiting.push(data);
  }
}

export class MessageChannelMain {
  readonly port1: StandInPort;
  readonly port2: StandInPort;

  constructor() {
    [this.port1, this.port2] = StandInPort.pair();
  }
}
