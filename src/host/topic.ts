/** Something that happens again and again, for whoever listens. A listener that throws is a bug. */

export type Unsubscribe = () => void;

export class Topic<T> {
  readonly #listeners = new Set<(event: T) => void>();

  get listeners(): number {
    return this.#listeners.size;
  }

  subscribe(listener: (event: T) => void): Unsubscribe {
    // The same function twice is two listeners.
    const own = (event: T): void => listener(event);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  publish(event: T): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}
