/** Who builds in a store, as far as the locks of the last look show. */
import type { BuildElsewhere } from '../contract/build-schemas.ts';
import { buildLocksOf, type Look, type WatchedStore } from './watched-store.ts';

/** One for each process. */
export function buildersOf(store: WatchedStore, look: Look): BuildElsewhere[] {
  const found = new Map<number, BuildElsewhere>();
  for (const { name, purpose, key, holders } of buildLocksOf(look)) {
    for (const holder of holders) {
      const known = found.get(holder.pid);
      const seenSinceMs = store.sightings.sinceMs(name, holder);
      found.set(holder.pid, {
        root: store.root,
        key: key ?? known?.key ?? null,
        pid: holder.pid,
        command: holder.command,
        holdsAdmission: purpose === 'admission' || (known?.holdsAdmission ?? false),
        seenSinceMs: Math.min(seenSinceMs, known?.seenSinceMs ?? seenSinceMs),
      });
    }
  }
  return [...found.values()];
}
