/** Time for people: durations in words, moments in local time. */
import { wrongUse } from './wrong-use.ts';

const dayMs = 24 * 3600_000;
const ageUnits: Readonly<Record<string, number>> = { h: 3600_000, d: dayMs, w: 7 * dayMs };

/** Milliseconds of `12h`, `30d` or `8w`, or throws FailureError (wrong use) naming `what`. */
export function parseAge(text: string, what: string): number {
  const [, number = '', unit = ''] = /^(\d{1,6})([hdw])$/.exec(text) ?? [];
  const unitMs = ageUnits[unit];
  if (unitMs === undefined) {
    throw wrongUse(`${what} is a time like 12h, 30d or 8w, not ${JSON.stringify(text)}.`);
  }
  return Number(number) * unitMs;
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Local time to the minute. */
export function formatMoment(epochNs: bigint): string {
  const moment = new Date(Number(epochNs / 1_000_000n));
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

export function isoMoment(epochNs: bigint): string {
  return new Date(Number(epochNs / 1_000_000n)).toISOString();
}
