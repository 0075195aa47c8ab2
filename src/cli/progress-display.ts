/**
 * How far a long command is, on stderr: one line that is rewritten on a terminal, JSON documents with --json
 * where stderr goes to a program, and now and then a line where it goes to a log.
 */
import { formatDuration } from './durations.ts';
import { encodeDocument } from './json-document.ts';
import { printable } from './printable.ts';
import { formatRate, formatSize } from './sizes.ts';

export interface ProgressReport {
  /** What happens now, for people: `hashing 3 of 8`. */
  readonly phase: string;
  readonly doneBytes: number;
  /** 0 while there is nothing to count. */
  readonly totalBytes: number;
  /** Null: not known yet. */
  readonly bytesPerSecond: number | null;
  readonly secondsLeft: number | null;
}

/** The part of a stream that is used. */
export interface TextStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export type ProgressStyle = 'terminal' | 'documents' | 'log' | 'none';

const eraseLine = '\r\x1b[2K';
const everyMs: Readonly<Record<ProgressStyle, number>> = {
  terminal: 100,
  documents: 1000,
  log: 10_000,
  none: 0,
};
/** A log says at once what happens next, but nothing of what is over in a moment. */
const phaseMs: Readonly<Record<ProgressStyle, number>> = { ...everyMs, log: 1000 };

export class ProgressDisplay {
  readonly #stream: TextStream;
  readonly #style: ProgressStyle;
  readonly #now: () => number;
  #lastMs: number;
  #lastPhase = '';
  #lineShown = false;
  #pending: NodeJS.Timeout | null = null;

  constructor(stream: TextStream, style: ProgressStyle, now = (): number => performance.now()) {
    this.#stream = stream;
    this.#style = style;
    this.#now = now;
    this.#lastMs = now();
  }

  /** The newest report is always shown in the end, if the command takes long enough. */
  show(report: ProgressReport): void {
    if (this.#style === 'none') return;
    if (this.#pending !== null) clearTimeout(this.#pending);
    const gapMs = (report.phase === this.#lastPhase ? everyMs : phaseMs)[this.#style];
    const dueInMs = this.#lastMs + gapMs - this.#now();
    if (dueInMs <= 0) this.#write(report);
    else this.#pending = setTimeout(() => this.#write(report), dueInMs).unref();
  }

  /** Makes room for other text: takes the line away. */
  clear(): void {
    if (this.#pending !== null) clearTimeout(this.#pending);
    this.#pending = null;
    if (this.#lineShown) this.#stream.write(eraseLine);
    this.#lineShown = false;
  }

  #write(report: ProgressReport): void {
    this.#pending = null;
    this.#lastMs = this.#now();
    this.#lastPhase = report.phase;
    if (this.#style === 'terminal') {
      const width = Math.max(20, (this.#stream.columns || 80) - 1);
      this.#stream.write(eraseLine + progressLine(report).slice(0, width));
      this.#lineShown = true;
    } else {
      const line = this.#style === 'documents' ? progressDocument(report) : progressLine(report);
      this.#stream.write(`${line}\n`);
    }
  }
}

export function progressLine({
  phase,
  doneBytes,
  totalBytes,
  bytesPerSecond,
  secondsLeft,
}: ProgressReport): string {
  const parts = [printable(phase)];
  if (totalBytes > 0) {
    const percent = Math.floor((Math.min(doneBytes, totalBytes) / totalBytes) * 100);
    parts.push(`${formatSize(doneBytes)} of ${formatSize(totalBytes)} (${percent}%)`);
  }
  if (bytesPerSecond !== null) parts.push(formatRate(bytesPerSecond));
  if (secondsLeft !== null) parts.push(`${formatDuration(secondsLeft * 1000)} left`);
  return parts.join(', ');
}

function progressDocument(report: ProgressReport): string {
  return encodeDocument({
    progress: {
      phase: report.phase,
      done_bytes: report.doneBytes,
      total_bytes: report.totalBytes,
      bytes_per_second: report.bytesPerSecond === null ? null : Math.round(report.bytesPerSecond),
      seconds_left: report.secondsLeft === null ? null : Math.round(report.secondsLeft),
    },
  });
}
