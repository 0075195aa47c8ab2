/** Short names for long things. */
export function lastPart(path: string): string {
  return path.split('/').filter(Boolean).at(-1) ?? path;
}

export function shortKey(key: string): string {
  return key.slice(0, 12);
}
