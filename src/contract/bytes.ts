/** Numbers of bytes in words, the same in every message and table. */

const kib = 1024;
const mib = 1024 * kib;
const gib = 1024 * mib;

/** GiB with one decimal; what is small has a smaller unit, because text has no hover for the exact number. */
export function formatBytes(bytes: number): string {
  if (bytes === 0 || bytes >= gib / 10) return `${(bytes / gib).toFixed(1)} GiB`;
  if (bytes >= mib) return `${(bytes / mib).toFixed(1)} MiB`;
  return bytes >= kib ? `${(bytes / kib).toFixed(1)} KiB` : `${bytes} B`;
}
