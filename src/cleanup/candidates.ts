/**
 * What fits which group, from one listing of the domain: no locks, no permissions yet. An entry is in one group
 * only, the first that it fits; what is only published fits none until it is asked for.
 */
import type { Stat } from '#native';
import type { RemovablePlace } from '../store/cleanup.ts';
import type { Domain } from '../store/domain.ts';
import type { Inventory, InventoryEntry } from '../store/inventory.ts';
import { isDirectory, isRegularFile } from '../store/metadata-file.ts';
import { denyFile } from '../store/paths.ts';
import { cleanupGroups, type CleanupGroup } from './groups.ts';
import { idleSinceMs } from './history.ts';
import type { GroupOffer, PlanOptions, PlanSources } from './plan.ts';
import { supersededIn, type Published } from './superseded.ts';

export interface Candidate {
  readonly group: CleanupGroup;
  readonly place: RemovablePlace;
  readonly name: string;
  readonly key: string;
  readonly reason: string;
  readonly bytes: number;
  readonly stat: Stat;
  /** Of the deny marker that goes with an artifact. */
  readonly marker: Stat | null;
  readonly restsOn: readonly { readonly key: string; readonly stat: Stat }[];
  readonly idleSinceMs: number | null;
  /** Why it is not what the store would have put there, and so stays; null where it is. */
  readonly oddity: string | null;
}

export interface Candidates {
  /** Of the groups that are asked for. */
  readonly candidates: readonly Candidate[];
  readonly offers: readonly GroupOffer[];
  readonly other: readonly { readonly path: string; readonly bytes: number }[];
}

type Asked = Required<PlanOptions>;

const placeOf = { ready: 'artifacts', denied: 'deny', quarantined: 'quarantine', temporary: 'tmp' } as const;

export async function candidatesIn(
  domain: Domain,
  listed: Inventory,
  asked: Asked,
  sources: PlanSources,
): Promise<Candidates> {
  const other = listed.other.map(({ path, bytes }) => ({ path, bytes }));
  const explained = listed.entries.filter((entry) => {
    if (isOfTheStore(entry)) return true;
    other.push({ path: idOf(entry), bytes: entry.bytes });
    return false;
  });
  const markers = new Map(
    explained.flatMap((entry) => (entry.state === 'denied' ? [[entry.key, entry] as const] : [])),
  );
  const published = explained.filter(({ state }) => state === 'ready');
  const served = published.filter(({ key, invalidated }) => !invalidated && !markers.has(key));
  const whyNotUnused = whyUnavailable(domain, sources);
  const found = [
    ...explained.flatMap((entry) => withoutAsking(entry, markers, new Set(published.map(({ key }) => key)))),
    ...(asked.groups.includes('superseded') ? await superseded(domain, served, asked, sources) : []),
    ...(asked.groups.includes('unused') && whyNotUnused === null
      ? unused(domain, served, asked, sources)
      : []),
  ];
  const taken = new Set<string>();
  const distinct = found.filter((candidate) => {
    const id = `${candidate.place}/${candidate.name}`;
    const isNew = !taken.has(id) && asked.groups.includes(candidate.group);
    if (isNew) taken.add(id);
    return isNew;
  });
  distinct.push(...chosenByHand(explained, asked, taken, markers));
  return {
    candidates: distinct.toSorted(byGroupAndName),
    offers: cleanupGroups.map((group) =>
      offerOf(group, group === 'chosen' ? distinct : found, asked, whyNotUnused),
    ),
    other,
  };
}

function idOf({ state, name }: InventoryEntry): string {
  return `${placeOf[state]}/${name}`;
}

/** By name: what only begins like an entry is nobody's to remove. */
function isOfTheStore({ state, name, key }: InventoryEntry): boolean {
  switch (state) {
    case 'ready':
      return name === key;
    case 'denied':
      return name === denyFile(key);
    case 'quarantined':
    case 'temporary':
      return name.startsWith(`${key}.`);
  }
}

type Markers = ReadonlyMap<string, InventoryEntry>;

function candidate(
  entry: InventoryEntry,
  group: CleanupGroup,
  reason: string,
  more: Partial<Pick<Candidate, 'marker' | 'restsOn' | 'oddity' | 'idleSinceMs'>> = {},
): Candidate {
  const { state, name, key, bytes, stat } = entry;
  return {
    group,
    place: placeOf[state],
    name,
    key,
    reason,
    bytes,
    stat,
    marker: null,
    restsOn: [],
    idleSinceMs: null,
    oddity: null,
    ...more,
  };
}

/** What the listing alone tells. */
function withoutAsking(
  entry: InventoryEntry,
  markers: Markers,
  publishedKeys: ReadonlySet<string>,
): Candidate[] {
  const { state, key, name, invalidated, stat } = entry;
  const marker = markers.get(key)?.stat ?? null;
  switch (state) {
    case 'temporary':
      return [candidate(entry, 'dead-builds', 'left by a build that is gone: nobody holds its build lock')];
    case 'quarantined': {
      if (name.startsWith(`${key}.cleanup.`)) {
        return [candidate(entry, 'interrupted-cleanups', 'a removal of it was interrupted')];
      }
      const oddity = isDirectory(stat)
        ? null
        : 'is not a directory, so the store did not put it there: look at it and remove it by hand';
      if (invalidated && isDirectory(stat)) {
        return [candidate(entry, 'half-moved', 'its move into quarantine was interrupted')];
      }
      const why = entry.reason === null ? '' : ` (${entry.reason})`;
      return [candidate(entry, 'quarantined', `taken out of service${why}`, { oddity })];
    }
    case 'denied': {
      if (publishedKeys.has(key)) return [];
      const oddity = isRegularFile(stat) ? null : 'is not a file, so the store did not write it: look at it';
      return [candidate(entry, 'stray-markers', 'a deny marker whose artifact is gone', { oddity })];
    }
    case 'ready': {
      if (invalidated && isDirectory(stat)) {
        const reason = 'its publication or move was interrupted: it is marked invalid and not served';
        return [candidate(entry, 'half-moved', reason, { marker })];
      }
      if (marker === null) return [];
      const why = markers.get(key)?.reason ?? 'no reason recorded';
      return [candidate(entry, 'denied', `failed a check (${why}) and is not served`, { marker })];
    }
  }
}

async function superseded(
  domain: Domain,
  served: readonly InventoryEntry[],
  { keepLatest }: Asked,
  { identitiesOf }: PlanSources,
): Promise<Candidate[]> {
  const identities = await identitiesOf(domain, served);
  const entries = new Map(served.map((entry) => [entry.key, entry]));
  const published = served.flatMap(({ key, modifiedNs }, index): Published[] => {
    const identity = identities[index] ?? null;
    return identity?.key === key ? [{ key, identity, publishedNs: modifiedNs }] : [];
  });
  return supersededIn(published, keepLatest).map(({ key, newer }) => {
    const newest = newer[0] as Published;
    const { source, producer } = newest.identity.document;
    const reason = `artifact ${newest.key.slice(0, 12)} is newer and the same but for its revision (${source.revision}) or producer version (${producer.version})`;
    const restsOn = newer.map(({ key: other }) => ({
      key: other,
      stat: (entries.get(other) as InventoryEntry).stat,
    }));
    return candidate(entries.get(key) as InventoryEntry, 'superseded', reason, { restsOn });
  });
}

function unused(
  { uuid }: Domain,
  served: readonly InventoryEntry[],
  { unusedAfterMs }: Asked,
  { history, now }: PlanSources,
): Candidate[] {
  if (history === null) return [];
  const nowMs = now();
  return served.flatMap((entry) => {
    const sinceMs = idleSinceMs(history, uuid, entry.key, Number(entry.modifiedNs / 1_000_000n));
    if (sinceMs === null || nowMs - sinceMs < unusedAfterMs) return [];
    const reason = `nobody was seen to use it since ${new Date(sinceMs).toISOString()}`;
    return [candidate(entry, 'unused', reason, { idleSinceMs: sinceMs })];
  });
}

function whyUnavailable({ uuid }: Domain, { history }: PlanSources): string | null {
  if (history === null) {
    return 'the disk does not record when an artifact was last used, and no history of leases is kept here';
  }
  return history.watchedSinceMs(uuid) === null
    ? 'leases in this store were not watched yet, so nothing can be called unused'
    : null;
}

function chosenByHand(
  entries: readonly InventoryEntry[],
  { chosen }: Asked,
  taken: ReadonlySet<string>,
  markers: Markers,
): Candidate[] {
  if (chosen.length === 0) return [];
  const wanted = new Set(chosen);
  return entries.flatMap((entry) => {
    const id = idOf(entry);
    if (!wanted.has(id) || taken.has(id)) return [];
    // Alone, a marker of an artifact that is there would put that artifact back into service.
    if (entry.state === 'denied') return [];
    const marker = entry.state === 'ready' ? (markers.get(entry.key)?.stat ?? null) : null;
    const { oddity = null } = withoutAsking(entry, markers, new Set())[0] ?? {};
    return [candidate(entry, 'chosen', 'chosen by hand', { marker, oddity })];
  });
}

function offerOf(
  group: CleanupGroup,
  found: readonly Candidate[],
  { groups }: Asked,
  whyNotUnused: string | null,
): GroupOffer {
  const isAskedFor = groups.includes(group);
  const unavailable = group === 'unused' ? whyNotUnused : null;
  const isCounted = unavailable === null && (isAskedFor || (group !== 'superseded' && group !== 'unused'));
  const fitting = found.filter((each) => each.group === group);
  return {
    group,
    isAskedFor,
    entries: isCounted ? fitting.length : null,
    bytes: isCounted ? fitting.reduce((total, { bytes }) => total + bytes, 0) : null,
    unavailable,
  };
}

/** An artifact goes before those that supersede it, should these go too. */
function byGroupAndName(a: Candidate, b: Candidate): number {
  const groups = cleanupGroups.indexOf(a.group) - cleanupGroups.indexOf(b.group);
  if (groups !== 0) return groups;
  const [left, right] = [a, b].map(({ key, place, name }) => `${key}\0${place}\0${name}`) as [string, string];
  return left < right ? -1 : left > right ? 1 : 0;
}
