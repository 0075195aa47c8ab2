/** Short words about what was just done: shown for a while, and read out. */
const shownMs = 6000;

export class Announcer {
  #text = $state('');
  #timer: ReturnType<typeof setTimeout> | undefined;

  get text(): string {
    return this.#text;
  }

  say(text: string): void {
    clearTimeout(this.#timer);
    this.#text = text;
    this.#timer = setTimeout(() => {
      this.#text = '';
    }, shownMs);
  }
}
