/**
 * One store under watch, in the process that reads it: whether it is there, what the last look found, and
 * everybody who wants to know when that changes.
 *
 * A look is taken when it is asked for after a change, one at a time, and shared by all who ask meanwhile.
 * Each look opens the domain anew: a root that went, came back, or is another store now is found out by that,
 * and never served from memory.
 */
import { basename } from 'node:path';
import { isSystemError } from '#native';
import type { Catalog } from '../catalog/catalog.ts';
import type { Found, FindQuestion } from '../catalog/find.ts';
import type { History } from '../catalog/history.ts';
import type { OverviewGroup } from '../catalog/overview.ts';
import { canonicalJson } from '../store/canonical-json.ts';
import { freeBytes } from '../store/capacity.ts';
import { withDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import type { LockState } from '../store/lock-holders.ts';
import { DocumentError } from '../store/identity.ts';
import { readDocument } from '../store/metadata-file.ts';
import { policyFile } from '../store/paths.ts';
import { mismatch } from '../store/policy.ts';
import type { DomainChange, InventoryRow } from '../contract/domain-schemas.ts';
import { FailureError, type Failure, type Outcome } from '../contract/failure.ts';
import type { DomainFacts, Store, StoreUsage } from '../contract/store-schemas.ts';
import type { Verification } from '../contract/artifact-schemas.ts';
import { eachInTurn } from '../store/turns.ts';
import { DiskWatcher } from './disk-watcher.ts';
import { InventoryQueries, type InventoryQuestion, type MatchingRows } from './inventory-query.ts';
import { LockSightings } from './lock-sightings.ts';
import { LeaseWatch } from './lease-watch.ts';
import { openStore, storeOutcome } from './stores.ts';
import { takeSnapshot, type SnapshotRow, type StoreSnapshot } from './store-snapshot.ts';
import { Topic } from './topic.ts';

export interface OnlineLook {
  readonly state: 'online';
  readonly revision: number;
  readonly domain: Domain;
  readonly policyDocument: string;
  readonly snapshot: StoreSnapshot;
}

export interface OfflineLook {
  readonly state: 'offline';
  readonly revision: number;
  readonly failure: Failure;
}

export type Look = OnlineLook | OfflineLook;

export interface WatchedStoreOptions {
  readonly now: () => number;
  /** How often the store is compared with what was last seen, below the kernel's own notices. */
  readonly pollMs: number;
  /** The first look has the one after it. */
  readonly revision: number;
  readonly catalog: Catalog;
  readonly history: History;
  /** Of a look that nobody waits for. */
  readonly onBug: (error: unknown) => void;
}

/** Changes that come in a burst are looked at together. */
const settleMs = 100;
/** After a look, at least this many times its own duration goes by before the next one that nobody asked for. */
const restAfterLook = 4;
/** Workers keep their leases for as long as they serve: minutes are exact enough. */
const leaseLookMs = 60_000;

export class WatchedStore {
  readonly root: string;
  readonly name: string;
  readonly changed = new Topic<DomainChange>();
  readonly sightings: LockSightings;
  readonly leases: LeaseWatch;
  readonly #now: () => number;
  readonly #onBug: (error: unknown) => void;
  readonly #watcher: DiskWatcher;
  readonly #watching: Promise<void>;
  readonly #queries = new InventoryQueries();
  readonly #catalog: Catalog;
  #verified = new Map<string, NonNullable<InventoryRow['lastVerified']>>();
  #verifications = 0;
  #revision: number;
  #last: Look | null = null;
  #lookedAtMs = 0;
  #isDirty = true;
  #looking: Promise<Look> | null = null;
  #due: NodeJS.Timeout | null = null;
  #lookTookMs = 0;
  #open = true;

  constructor(root: string, { now, pollMs, revision, catalog, history, onBug }: WatchedStoreOptions) {
    this.root = root;
    this.name = basename(root) || root;
    this.#now = now;
    this.#revision = revision;
    this.#onBug = onBug;
    this.#catalog = catalog;
    this.sightings = new LockSightings(now);
    this.leases = new LeaseWatch(history, { now, everyMs: leaseLookMs, onBug });
    this.#watcher = new DiskWatcher(root, {
      pollMs,
      onChange: () => this.touch(),
      isRestless: () => this.#isRestless(),
    });
    this.#watching = this.#watcher.start();
  }

  close(): void {
    this.#open = false;
    this.#watcher.close();
    this.leases.close();
    if (this.#due !== null) clearTimeout(this.#due);
  }

  /** Something changed, or may have: looks soon if anybody listens, else when somebody asks. */
  touch(): void {
    this.#isDirty = true;
    if (!this.#open || this.#due !== null || this.changed.listeners === 0) return;
    this.#due = setTimeout(
      () => {
        this.#due = null;
        this.look().catch(this.#onBug);
      },
      Math.max(settleMs, this.#lookTookMs * restAfterLook),
    );
    this.#due.unref();
  }

  /** What is there now. */
  async look(): Promise<Look> {
    await this.#watching;
    if (this.#looking !== null) {
      const look = await this.#looking;
      // It may have begun before the change that this caller knows of.
      return this.#isDirty ? await this.look() : look;
    }
    if (!this.#isDirty && this.#last !== null) return this.#last;
    this.#looking = this.#takeLook().finally(() => {
      this.#looking = null;
    });
    return await this.#looking;
  }

  /** Throws FailureError while the store is offline. */
  async online(): Promise<OnlineLook> {
    const look = await this.look();
    if (look.state === 'online') return look;
    throw new FailureError(look.failure);
  }

  async summary(): Promise<Store> {
    return this.summaryOf(await this.look());
  }

  summaryOf(look: Look): Store {
    const { root, name } = this;
    if (look.state === 'offline') return { state: 'offline', root, name, failure: look.failure };
    return { state: 'online', root, name, domain: factsOf(look), usage: usageOf(look) };
  }

  async matching(question: InventoryQuestion): Promise<{ look: OnlineLook; matching: MatchingRows }> {
    const look = await this.online();
    const matching = await this.#queries.matching(
      `${look.revision} ${this.#verifications}`,
      async () => await eachInTurn(look.snapshot.rows, this.shownRow),
      question,
    );
    return { look, matching };
  }

  readonly shownRow = (row: SnapshotRow): InventoryRow => ({
    ...row,
    lastVerified: row.state === 'ready' ? (this.#verified.get(row.key) ?? null) : null,
  });

  /** Where the bytes of the last look are. Throws FailureError while the store is offline. */
  async overview(): Promise<OverviewGroup[]> {
    return await this.#catalog.overview((await this.#catalogued()).domain);
  }

  /** Throws FailureError while the store is offline. */
  async find(question: FindQuestion): Promise<{ look: OnlineLook; found: Found }> {
    const look = await this.#catalogued();
    return { look, found: await this.#catalog.find(look.domain, question) };
  }

  /** What the catalog says is of a look of this process, or of a newer one. */
  async #catalogued(): Promise<OnlineLook> {
    const look = await this.online();
    if (await this.#catalog.isCurrent(look.domain)) return look;
    this.#isDirty = true;
    return await this.online();
  }

  /** Remembers how a check came out. `checked` is the look that it began with. */
  async verified({ key, level, status, atMs }: Verification, checked: OnlineLook): Promise<void> {
    const entry = checked.snapshot.listed.entries.find((one) => one.state === 'ready' && one.key === key);
    if (entry !== undefined) await this.#catalog.verified(checked.domain, entry, { level, status, atMs });
    this.#verifications += 1;
    this.#verified.set(key, { level, status, atMs });
    const look = this.#last;
    if (look !== null) this.#publish({ ...look, revision: this.#nextRevision() });
  }

  /** A build that goes on, or a store that may come back. */
  #isRestless(): boolean {
    if (this.#last?.state !== 'online') return this.#last !== null;
    const { usage, heldBuildLocks } = this.#last.snapshot;
    return usage.building.entries > 0 || heldBuildLocks.length > 0;
  }

  async #takeLook(): Promise<Look> {
    this.#isDirty = false;
    const started = performance.now();
    const verifications = this.#verifications;
    const found = await this.#find();
    this.#lookTookMs = performance.now() - started;
    this.#lookedAtMs = this.#now();
    this.leases.follow(found.ok ? found.value.domain : null);
    if (!found.ok) return this.#accept({ state: 'offline', failure: found.failure });
    this.#verified = new Map(found.value.snapshot.verifications);
    // One that ended meanwhile may not be among them yet.
    if (this.#verifications !== verifications) this.#isDirty = true;
    this.sightings.see(found.value.snapshot.heldBuildLocks);
    return this.#accept({ state: 'online', ...found.value });
  }

  async #find(): Promise<Outcome<Omit<OnlineLook, 'state' | 'revision'>>> {
    return await storeOutcome(`the store at ${this.root} cannot be read`, async () => {
      const opened = await openStore(this.root);
      if (!opened.ok) throw new FailureError(opened.failure);
      const domain = opened.value;
      const snapshot = await takeSnapshot(domain, this.#catalog, this.#now());
      return { domain, policyDocument: await policyDocumentOf(domain), snapshot };
    });
  }

  #accept(found: Omit<OnlineLook, 'revision'> | Omit<OfflineLook, 'revision'>): Look {
    const same = this.#last !== null && signatureOf(this.#last) === signatureOf(found);
    const revision = same && this.#last !== null ? this.#last.revision : this.#nextRevision();
    const look: Look = { ...found, revision };
    if (same) this.#last = look;
    else this.#publish(look);
    return look;
  }

  #publish(look: Look): void {
    this.#last = look;
    this.changed.publish(this.changeOf(look));
  }

  changeOf(look: Look): DomainChange {
    return { revision: look.revision, measuredAtMs: this.#lookedAtMs, online: look.state === 'online' };
  }

  #nextRevision(): number {
    this.#revision += 1;
    return this.#revision;
  }
}

/** Throws FailureError where it was damaged since the domain was opened, a moment ago. */
async function policyDocumentOf({ root: path }: Domain): Promise<string> {
  try {
    return await withDirectories(path, ({ root }) => canonicalJson(readDocument(root, policyFile)));
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    throw mismatch(`the store at ${path} is not usable: ${error.message}`);
  }
}

function signatureOf(look: Omit<OnlineLook, 'revision'> | Omit<OfflineLook, 'revision'>): string {
  if (look.state === 'offline') return `offline ${look.failure.code} ${look.failure.message}`;
  return `online ${look.domain.uuid} ${look.policyDocument}\n${look.snapshot.signature}`;
}

function factsOf({ domain, policyDocument }: OnlineLook): DomainFacts {
  const { uuid, scope, domainId, admission, storageClass, filesystemType, policyVersion, capacity } = domain;
  return {
    uuid,
    scope,
    domainId,
    admission,
    storageClass,
    filesystemType,
    policyVersion,
    capacity,
    policyDocument,
  };
}

/** What is free on the disk changes without the store: asked for each time. */
function usageOf({ domain, snapshot, revision }: OnlineLook): StoreUsage {
  let { filesystemFreeBytes } = snapshot.usage;
  try {
    filesystemFreeBytes = freeBytes(domain.root);
  } catch (error) {
    // It went just now, and the next look tells so.
    if (!isSystemError(error)) throw error;
  }
  return { ...snapshot.usage, filesystemFreeBytes, revision };
}

/** Builds of other processes, as far as the locks of the last look show. */
export function buildLocksOf(look: Look): readonly LockState[] {
  return look.state === 'online' ? look.snapshot.heldBuildLocks : [];
}
