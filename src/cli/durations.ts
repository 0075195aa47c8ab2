/** Time for people: durations in words, moments in local time. */

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
