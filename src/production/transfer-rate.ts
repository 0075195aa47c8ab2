/** How fast bytes are moving now, and so how long the rest will take: a mean over the last few seconds. */

const windowMs = 5_000;
/** A shorter span says too little to promise anything by. */
const leastSpanMs = 500;

interface Sample {
  readonly atMs: number;
  readonly bytes: number;
}

export class TransferRate {
  #samples: Sample[] = [];

  /** `atMs` is monotonic; `bytes` never falls within one phase. */
  add(atMs: number, bytes: number): void {
    this.#samples.push({ atMs, bytes });
    // The oldest sample that is kept is the last one at or before the window's start.
    while (this.#samples.length > 2 && (this.#samples[1] as Sample).atMs <= atMs - windowMs)
      this.#samples.shift();
  }

  reset(): void {
    this.#samples = [];
  }

  /** Null until there is something to go by. */
  get bytesPerSecond(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.atMs - first.atMs < leastSpanMs) return null;
    return ((last.bytes - first.bytes) * 1000) / (last.atMs - first.atMs);
  }

  /** Null while that is unknown, as it is when nothing moves. */
  secondsLeft(totalBytes: number): number | null {
    const rate = this.bytesPerSecond;
    const last = this.#samples.at(-1);
    if (rate === null || last === undefined) return null;
    const left = Math.max(totalBytes - last.bytes, 0);
    if (left === 0) return 0;
    return rate > 0 ? left / rate : null;
  }
}
