/**
 * What can go from a domain and why, as a value that is shown first and then applied (apply.ts).
 *
 * Planning changes nothing and takes no lock: who holds which is read from the kernel. A plan is plain JSON,
 * frozen, and good for one application within `planLifetimeMs`; what it says of an entry holds only as long as
 * the entry's signature does. Every byte below the root is in it: in an entry that can go, in one that is kept
 * and why, in what is published and not asked for, or in `other`, which is never touched.
 */
import type { Outcome } from '../contract/failure.ts';
import { outcomeOf } from '../contract/failure.ts';
import { native } from '#native';
import { withDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import { inventory } from '../store/inventory.ts';
import type { RemovablePlace } from '../store/cleanup.ts';
import type { ArtifactIdentity } from '../store/identity.ts';
import type { InventoryEntry } from '../store/inventory.ts';
import { uuidHex } from '../store/paths.ts';
import { pause } from '../store/turns.ts';
import { candidatesIn, type Candidate } from './candidates.ts';
import { cleanupGroups, defaultGroups, type CleanupGroup } from './groups.ts';
import type { UseHistory } from './history.ts';
import { LockWords, type Holder } from './lock-words.ts';
import { isSame, signatureOf, type Signature } from './signature.ts';
import { survey, surveyorOf, type Survey } from './survey.ts';

/** Longer than a person needs to read a plan, shorter than it stays true. */
export const planLifetimeMs = 15 * 60_000;

export const defaultUnusedAfterMs = 30 * 24 * 3600_000;

export interface PlanOptions {
  /** What may go. Default: what nobody can use. `chosen` need not be named. */
  readonly groups?: readonly CleanupGroup[];
  /** For `unused`: how long nobody was seen to use it. */
  readonly unusedAfterMs?: number;
  /** For `superseded`: how many releases of each line stay; at least 1. */
  readonly keepLatest?: number;
  /** Entries by id (`artifacts/<key>`, `quarantine/<name>`, `tmp/<name>`), chosen by hand whatever their state. */
  readonly chosen?: readonly string[];
}

/** What a plan needs besides the disk; handed in by whoever knows it. */
export interface PlanSources {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** In the order of the entries; null where it can't be read or is not the key's. */
  readonly identitiesOf: (
    domain: Domain,
    entries: readonly InventoryEntry[],
  ) => Promise<readonly (ArtifactIdentity | null)[]>;
  /** Null: there is none, and nothing is called unused. */
  readonly history: UseHistory | null;
}

export interface PlannedEntry {
  /** `<place>/<name>`. */
  readonly id: string;
  readonly group: CleanupGroup;
  readonly place: RemovablePlace;
  readonly name: string;
  readonly key: string;
  /** Why it can go, in words. */
  readonly reason: string;
  /** Sum of st_size, as the store's limit counts. */
  readonly bytes: number;
  readonly allocatedBytes: number;
  /** What removing it would free at most: files with links elsewhere free nothing, shared extents are not seen. */
  readonly freedBytes: number;
  readonly files: number;
  readonly signature: Signature;
  /** Of the deny marker that goes with an artifact. */
  readonly marker: Signature | null;
  /** Newer artifacts that must still be there for this one to go. */
  readonly restsOn: readonly { readonly key: string; readonly signature: Signature }[];
  /** For `unused`: since when nobody was seen to use it, in milliseconds since 1970. */
  readonly idleSinceMs: number | null;
}

export const keptBecause = ['building', 'leased', 'unknown-lock', 'not-removable'] as const;

/** It fits a group that is asked for, and stays. */
export interface KeptEntry {
  readonly id: string;
  readonly group: CleanupGroup;
  readonly key: string;
  readonly bytes: number;
  readonly because: (typeof keptBecause)[number];
  readonly reason: string;
  /** Empty where the holder can't be seen, or no lock is in the way. */
  readonly holders: readonly Holder[];
}

/** What a group is and whether it can be asked for. */
export interface GroupOffer {
  readonly group: CleanupGroup;
  readonly isAskedFor: boolean;
  /** Of all that fits, what is kept included; null where it is only counted when it is asked for. */
  readonly entries: number | null;
  readonly bytes: number | null;
  /** Why it can't be asked for; null where it can. */
  readonly unavailable: string | null;
}

export interface CleanupPlan {
  readonly schemaVersion: 1;
  /** 32 hex digits. */
  readonly id: string;
  readonly madeAtMs: number;
  readonly domain: {
    readonly root: string;
    readonly uuid: string;
    readonly device: string;
    readonly inode: string;
  };
  readonly options: Required<PlanOptions>;
  /** In the order of the groups, then of key and name. */
  readonly entries: readonly PlannedEntry[];
  readonly kept: readonly KeptEntry[];
  readonly groups: readonly GroupOffer[];
  /** What no state explains: listed, never touched. */
  readonly other: readonly { readonly path: string; readonly bytes: number }[];
  /** Everything below the root. */
  readonly storeBytes: number;
}

export function isGroup(word: string): word is CleanupGroup {
  return (cleanupGroups as readonly string[]).includes(word);
}

/** Throws a SystemError where the store can't be listed. */
export function plan(
  domain: Domain,
  options: PlanOptions,
  sources: PlanSources,
): Promise<Outcome<CleanupPlan>> {
  return outcomeOf(async () => {
    const asked = settled(options);
    const listed = await inventory(domain);
    const found = await candidatesIn(domain, listed, asked, sources);
    const locks = await LockWords.of(domain.root, [...new Set(found.candidates.map(({ key }) => key))]);
    const entries: PlannedEntry[] = [];
    const kept: KeptEntry[] = [];
    const root = await withDirectories(domain.root, async (directories) => {
      const surveyor = surveyorOf(domain.root);
      for (const candidate of found.candidates) {
        await pause();
        const seen = survey(surveyor, directories[candidate.place], candidate.place, candidate.name);
        // It went by itself, or is not any more what was listed: the next plan tells.
        if (seen === null || !isSame(signatureOf(seen.stat), signatureOf(candidate.stat))) continue;
        const reason = whyKept(candidate, seen, locks);
        if (reason === null) entries.push(planned(candidate, seen));
        else kept.push({ ...named(candidate), bytes: seen.bytes, ...reason });
      }
      return native.fstat(directories.root);
    });
    return frozen<CleanupPlan>({
      schemaVersion: 1,
      id: uuidHex(),
      madeAtMs: sources.now(),
      domain: {
        root: domain.root,
        uuid: domain.uuid,
        device: String(root.dev),
        inode: String(root.ino),
      },
      options: asked,
      entries,
      kept,
      groups: found.offers,
      other: found.other,
      storeBytes: listed.storeBytes,
    });
  });
}

function settled({ groups, unusedAfterMs, keepLatest, chosen = [] }: PlanOptions): Required<PlanOptions> {
  const asked = new Set<CleanupGroup>(groups ?? defaultGroups);
  if (chosen.length > 0) asked.add('chosen');
  return {
    groups: cleanupGroups.filter((group) => asked.has(group)),
    unusedAfterMs: unusedAfterMs ?? defaultUnusedAfterMs,
    keepLatest: keepLatest ?? 1,
    chosen: [...new Set(chosen)],
  };
}

function named({ place, name, key, group }: Candidate): Pick<KeptEntry, 'id' | 'key' | 'group'> {
  return { id: `${place}/${name}`, key, group };
}

function planned(candidate: Candidate, seen: Survey): PlannedEntry {
  const { place, name, key, group, reason, marker, restsOn, idleSinceMs } = candidate;
  return {
    id: `${place}/${name}`,
    group,
    place,
    name,
    key,
    reason,
    bytes: seen.bytes + (marker?.sizeBytes ?? 0),
    allocatedBytes: seen.allocatedBytes + (marker?.allocatedBytes ?? 0),
    freedBytes: seen.freedBytes + (marker?.allocatedBytes ?? 0),
    files: seen.files,
    signature: signatureOf(seen.stat),
    marker: marker === null ? null : signatureOf(marker),
    restsOn: restsOn.map(({ key: newer, stat }) => ({ key: newer, signature: signatureOf(stat) })),
    idleSinceMs,
  };
}

function whyKept(
  candidate: Candidate,
  seen: Survey,
  locks: LockWords,
): Pick<KeptEntry, 'because' | 'reason' | 'holders'> | null {
  const lock = locks.inTheWay(candidate.key);
  if (lock !== null) return lock;
  const reason = candidate.oddity ?? seen.problem;
  return reason === null ? null : { because: 'not-removable', reason, holders: [] };
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) frozen(part);
  return value;
}
