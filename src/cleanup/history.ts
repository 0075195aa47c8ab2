/**
 * What a plan has to be told about the past, because the disk does not keep it: since when leases were watched,
 * and when an artifact was last seen leased. Whoever keeps a history hands it in; without one nothing is ever
 * called unused.
 */
export interface UseHistory {
  /** Since when leases in this domain are watched, in milliseconds since 1970; null: they are not. */
  watchedSinceMs(domainUuid: string): number | null;
  /** When a lease on this key was last seen; null: never since the watching began. */
  lastLeasedMs(domainUuid: string, key: string): number | null;
}

/** Since when nobody has been seen to use an artifact, as far as the watching reaches; null where it is not watched. */
export function idleSinceMs(
  history: UseHistory,
  domainUuid: string,
  key: string,
  publishedMs: number,
): number | null {
  const watchedMs = history.watchedSinceMs(domainUuid);
  if (watchedMs === null) return null;
  return Math.max(history.lastLeasedMs(domainUuid, key) ?? watchedMs, watchedMs, publishedMs);
}
