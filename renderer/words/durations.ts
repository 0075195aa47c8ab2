/** Time for people: durations in words, moments in local time with the zone to be had. */

export function durationWords(milliseconds: number): string {
  if (milliseconds < 1000) return 'less than a second';
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return plural(seconds, 'second');
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return joined(plural(minutes, 'minute'), seconds % 60, 'second');
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return joined(plural(hours, 'hour'), minutes % 60, 'minute');
  return plural(Math.round(hours / 24), 'day');
}

function plural(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

function joined(first: string, rest: number, unit: string): string {
  return rest === 0 ? first : `${first} ${plural(rest, unit)}`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const clockWithSeconds = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});
const exact = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'long',
});

/** `12:03` today, else `2026-11-30 12:03`. */
export function momentWords(atMs: number, nowMs = Date.now()): string {
  const moment = new Date(atMs);
  const time = clock.format(moment);
  return moment.toDateString() === new Date(nowMs).toDateString() ? time : `${dayWords(moment)} ${time}`;
}

/** `12:03` today, else `2026-11-30`: where there is no room for both. */
export function shortMoment(atMs: number, nowMs = Date.now()): string {
  const moment = new Date(atMs);
  return moment.toDateString() === new Date(nowMs).toDateString() ? clock.format(moment) : dayWords(moment);
}

export function clockWords(atMs: number): string {
  return clockWithSeconds.format(new Date(atMs));
}

/** With seconds and the zone. */
export function exactMoment(atMs: number): string {
  return exact.format(new Date(atMs));
}

function dayWords(moment: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}
