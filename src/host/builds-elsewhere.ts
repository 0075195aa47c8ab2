/** Builds of other processes in the stores that are known, as far as the locks of the last look show. */
import type { BuildList } from '../contract/build-schemas.ts';
import type { BuildOfProcess } from './held-locks.ts';
import { buildLocksOf, type KnownStore, type Look } from './known-store.ts';

type BuildElsewhere = BuildList['elsewhere'][number];

export function buildsElsewhere(store: KnownStore, look: Look, buildOf: BuildOfProcess): BuildElsewhere[] {
  const found = new Map<number, BuildElsewhere>();
  for (const { name, purpose, key, holders } of buildLocksOf(look)) {
    for (const holder of holders) {
      if (buildOf(holder.pid) !== null) continue;
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
