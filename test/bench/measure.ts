/**
 * Timing and telling: ratios are medians of interleaved runs, so that a busy machine slows both sides alike.
 * Figures are for what has no peer: an absolute value against an absolute bound, of this machine as it was.
 */
import { spawnSync } from 'node:child_process';
import { cpus, release } from 'node:os';

export interface Ratio {
  /** What is compared, as one line of the table. */
  readonly name: string;
  /** Ours over theirs, or theirs over ours: `meaning` says which. */
  readonly ratio: number;
  readonly meaning: string;
  readonly bound: string;
  readonly kept: boolean;
  readonly oursMs: number;
  readonly theirsMs: number;
  readonly runs: number;
}

export interface Figure {
  /** What is measured, as one line of the table. */
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly bound: number;
  readonly kept: boolean;
  readonly runs: number;
  /** Of the same runs, for reading: null where there is nothing more to say. */
  readonly remark: string | null;
}

export type Row = Ratio | Figure;

export interface Contest {
  readonly runs: number;
  /** Each returns its time in milliseconds. */
  readonly ours: () => Promise<number>;
  readonly theirs: () => Promise<number>;
  /** Between runs: brings back the state that both start from. */
  readonly reset?: () => void;
}

/** Median times of alternating runs, after one of each that does not count. */
export async function contest({ runs, ours, theirs, reset }: Contest): Promise<Times> {
  const times = { ours: [] as number[], theirs: [] as number[] };
  for (let run = 0; run <= runs; run += 1) {
    for (const [side, measure] of [
      ['ours', ours],
      ['theirs', theirs],
    ] as const) {
      reset?.();
      const elapsed = await measure();
      if (run > 0) times[side].push(elapsed);
    }
  }
  return { ours: median(times.ours), theirs: median(times.theirs) };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** Wall time of a program that must succeed. */
export async function timedProgram(command: string, ...args: string[]): Promise<number> {
  return await timed(async () => {
    const { status, stderr, error } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? stderr.toString()}`);
  });
}

interface Times {
  /** Median milliseconds. */
  readonly ours: number;
  readonly theirs: number;
}

/** Ours must take at most `bound` times what theirs takes. */
export function atMost(name: string, bound: number, runs: number, times: Times): Ratio {
  const ratio = times.ours / times.theirs;
  const words = { meaning: 'our time / their time', bound: `at most ${bound}` };
  return { name, ratio, ...words, kept: ratio <= bound, oursMs: times.ours, theirsMs: times.theirs, runs };
}

/** Ours must be at least `bound` times as fast as theirs. */
export function atLeast(name: string, bound: number, runs: number, times: Times): Ratio {
  const ratio = times.theirs / times.ours;
  const words = { meaning: 'our speed / their speed', bound: `at least ${bound}` };
  return { name, ratio, ...words, kept: ratio >= bound, oursMs: times.ours, theirsMs: times.theirs, runs };
}

/** The value must be at most `bound`. */
export function figure(name: string, bound: number, of: Omit<Figure, 'name' | 'bound' | 'kept'>): Figure {
  return { name, bound, kept: of.value <= bound, ...of };
}

export function machine(): string {
  const [cpu] = cpus();
  return `${cpus().length} x ${cpu?.model ?? 'unknown processor'}, Linux ${release()}, Node ${process.versions.node}`;
}
