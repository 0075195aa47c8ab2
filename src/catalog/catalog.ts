/**
 * The catalog: what was found in domains, kept so that the next look reads only what changed, and so that
 * overviews and searches are queries. It is a cache. An entry is served from it only under the signature that the
 * disk shows now, so it is never asked whether something is true, and deleting it costs time alone.
 *
 * Whatever becomes of the file, every answer stays the same: a damaged one is begun anew, and where none can be
 * used the tables live in memory for as long as the process does. `problem` says so.
 */
import type { Domain } from '../store/domain.ts';
import type { Inventory, InventoryEntry } from '../store/inventory.ts';
import { pause, turn } from '../store/turns.ts';
import { cacheKind } from './cache-schema.ts';
import { differences, type CatalogDifference } from './check.ts';
import {
  inMemory,
  isDamage,
  openDatabase,
  whyUnusable,
  type OpenedDatabase,
  type OpenOptions,
} from './database.ts';
import { noFacts, readEntry, type EntryFacts } from './entry-facts.ts';
import { entryId, EntryTable, type EntryWrite, type KnownEntry } from './entry-table.ts';
import { findIn, type Found, type FindQuestion } from './find.ts';
import { overviewOf, type OverviewGroup } from './overview.ts';
import { VerificationTable, type KnownVerification } from './verification-table.ts';

export interface CatalogOptions extends OpenOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export interface Refreshed {
  /** Of each listed entry, in their order. */
  readonly facts: EntryFacts[];
  /** How many entries were read from the disk. */
  readonly read: number;
}

export interface CatalogStatus {
  readonly entries: number;
  /** Entries whose tensors are known. */
  readonly manifests: number;
  /** Different lists of tensors among them. */
  readonly structures: number;
}

/** So many are read, and then written in one transaction: others get their turn in between. */
const batch = 256;
/** Somebody else writes the same domain all the time: what they write is as new as ours. */
const mostConflicts = 20;

interface DomainState {
  readonly id: number;
  revision: number;
  entries: Map<string, KnownEntry>;
}

export class Catalog {
  readonly path: string;
  readonly #options: CatalogOptions;
  readonly #now: () => number;
  readonly #domains = new Map<string, DomainState>();
  #opened: OpenedDatabase;
  #table: EntryTable;
  /** One piece of work at a time: a connection must not be replaced under somebody. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(path: string, options: CatalogOptions, opened: OpenedDatabase) {
    this.path = path;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#opened = opened;
    this.#table = new EntryTable(opened.connection);
  }

  static async open(path: string, options: CatalogOptions = {}): Promise<Catalog> {
    return new Catalog(path, options, await openDatabase(path, cacheKind, options));
  }

  /** What to tell a person about it; null while all is well. */
  get problem(): string | null {
    return this.#opened.problem;
  }

  /** Whether it outlives the process. */
  get isKept(): boolean {
    return this.#opened.isKept;
  }

  close(): void {
    this.#opened.connection.close();
  }

  /** Brings the rows of a domain to what was listed, reading the manifests of what changed. */
  async refresh(domain: Domain, { entries }: Pick<Inventory, 'entries'>): Promise<Refreshed> {
    return await this.#using(() => this.#refresh(domain, entries));
  }

  /** Bytes by state, model and representation, the largest first: of the last refresh. */
  async overview(domain: Domain): Promise<OverviewGroup[]> {
    return await this.#using(() => overviewOf(this.#opened.connection, this.#state(domain).id));
  }

  /** Artifacts and tensors by words, dtype and shape: of the last refresh. */
  async find(domain: Domain, question: FindQuestion): Promise<Found> {
    return await this.#using(() => findIn(this.#opened.connection, this.#state(domain).id, question));
  }

  /** False where another process has written since: its listing may be the older one, so refresh before asking. */
  async isCurrent(domain: Domain): Promise<boolean> {
    return await this.#using(() => {
      const { id, revision } = this.#state(domain);
      return this.#table.revision(id) === revision;
    });
  }

  /** What differs between the rows as they are and what was listed, each entry read anew. Changes nothing. */
  async check(domain: Domain, { entries }: Pick<Inventory, 'entries'>): Promise<CatalogDifference[]> {
    return await this.#using(() =>
      differences(this.#opened.connection, this.#state(domain).id, domain, entries),
    );
  }

  /** What the rows hold of a domain, without looking at it. */
  async status(domain: Domain): Promise<CatalogStatus> {
    return await this.#using(
      () =>
        this.#opened.connection
          .prepare(
            `SELECT count(*) AS entries, count(structure) AS manifests, count(DISTINCT structure) AS structures
             FROM entry WHERE domain = ?`,
          )
          .get(this.#state(domain).id) as CatalogStatus,
    );
  }

  async rebuild(domain: Domain, inventory: Pick<Inventory, 'entries'>): Promise<Refreshed> {
    return await this.#using(async () => {
      this.#table.forget(this.#state(domain).id);
      this.#domains.clear();
      return await this.#refresh(domain, inventory.entries);
    });
  }

  /** Remembers how a check of a published artifact came out. */
  async verified(domain: Domain, entry: InventoryEntry, result: KnownVerification): Promise<void> {
    await this.#using(() =>
      new VerificationTable(this.#opened.connection).put(this.#state(domain).id, entry, result),
    );
  }

  /** By key, of those of the listed artifacts that are still as they were when they were checked. */
  async verifications(
    domain: Domain,
    { entries }: Pick<Inventory, 'entries'>,
  ): Promise<Map<string, KnownVerification>> {
    return await this.#using(() =>
      new VerificationTable(this.#opened.connection).of(this.#state(domain).id, entries),
    );
  }

  async #refresh(domain: Domain, listed: readonly InventoryEntry[]): Promise<Refreshed> {
    const state = this.#state(domain);
    if (this.#table.revision(state.id) !== state.revision) this.#reload(state);
    let read = 0;
    let batched: EntryWrite[] = [];
    const readNow = new Map<string, EntryWrite>();
    const flush = (): void => {
      this.#write(state, batched, []);
      batched = [];
    };
    for (const entry of listed) {
      await pause();
      const id = entryId(entry);
      if (state.entries.get(id)?.signature === entry.signature) continue;
      const write = { entry, read: await readEntry(domain, entry) };
      read += 1;
      readNow.set(id, write);
      batched.push(write);
      if (batched.length === batch) flush();
    }
    await turn();
    flush();
    await this.#settle(state, domain, listed, readNow);
    return { facts: shownFacts(listed, state.entries), read };
  }

  /** What is no longer there goes, and what somebody else overwrote meanwhile is written again. */
  async #settle(
    state: DomainState,
    domain: Domain,
    listed: readonly InventoryEntry[],
    readNow: ReadonlyMap<string, EntryWrite>,
  ): Promise<void> {
    const ids = new Set(listed.map(entryId));
    for (let conflicts = 0; conflicts < mostConflicts; conflicts += 1) {
      const gone = [...state.entries.keys()].filter((id) => !ids.has(id));
      const differing: EntryWrite[] = [];
      for (const entry of listed) {
        const id = entryId(entry);
        if (state.entries.get(id)?.signature === entry.signature) continue;
        differing.push(readNow.get(id) ?? { entry, read: await readEntry(domain, entry) });
      }
      if (gone.length === 0 && differing.length === 0) return;
      if (this.#write(state, differing, gone)) break;
    }
  }

  /** Whether nobody else wrote meanwhile. Else the rows are what they are now. */
  #write(state: DomainState, changed: readonly EntryWrite[], gone: readonly string[]): boolean {
    if (changed.length === 0 && gone.length === 0) return true;
    const leavesUnused = gone.length > 0 || changed.some(({ entry }) => state.entries.has(entryId(entry)));
    const revision = this.#table.write(state.id, state.revision, { changed, gone, leavesUnused });
    if (revision === null) {
      this.#reload(state);
      return false;
    }
    state.revision = revision;
    for (const id of gone) state.entries.delete(id);
    for (const { entry, read } of changed) {
      state.entries.set(entryId(entry), { signature: entry.signature, facts: read.facts });
    }
    return true;
  }

  #reload(state: DomainState): void {
    Object.assign(state, this.#table.load(state.id));
  }

  #state({ uuid, root }: Domain): DomainState {
    const name = `${uuid} ${root}`;
    const known = this.#domains.get(name);
    if (known !== undefined) return known;
    const id = this.#table.domain(uuid, root, this.#now());
    const state: DomainState = { id, ...this.#table.load(id) };
    this.#domains.set(name, state);
    return state;
  }

  async #using<T>(work: () => T | Promise<T>): Promise<T> {
    const done = this.#last.then(() => this.#whateverHappens(work));
    this.#last = done.catch(() => undefined);
    return await done;
  }

  /** Does it again on a file begun anew, or in memory, where the file gives out. */
  async #whateverHappens<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const why = whyUnusable(error);
      if (why === null || !this.#opened.isKept) throw error;
      await this.#replace(isDamage(error), why);
      return await this.#whateverHappens(work);
    }
  }

  async #replace(isDamaged: boolean, why: string): Promise<void> {
    this.#opened.connection.close();
    this.#domains.clear();
    const { name, loss } = cacheKind;
    this.#opened = isDamaged
      ? await openDatabase(this.path, cacheKind, this.#options)
      : inMemory(cacheKind, `${name} at ${this.path} is not used any more: ${why}. ${loss}`);
    this.#table = new EntryTable(this.#opened.connection);
  }
}

/** A deny marker says nothing itself: it stands against the artifact with its key. */
function shownFacts(listed: readonly InventoryEntry[], known: ReadonlyMap<string, KnownEntry>): EntryFacts[] {
  const own = (id: string): EntryFacts => known.get(id)?.facts ?? noFacts;
  return listed.map((entry) => own(entry.state === 'denied' ? `ready/${entry.key}` : entryId(entry)));
}
