/**
 * What happened, where the disk of a store does not keep it: when leases were watched and seen, builds,
 * registrations, cleanups. It can't be made again, and nothing depends on it but what it tells.
 *
 * A lease is seen by asking the kernel's table once in a while, so one that came and went between two looks was
 * not. Watching that stopped for longer than `mostGapMs` begins anew: whoever used an artifact meanwhile is not
 * known, so nothing before counts as unused.
 */
import { historyKind } from './history-schema.ts';
import { inMemory, openDatabase, whyUnusable, type OpenedDatabase, type OpenOptions } from './database.ts';

/** A night or a weekday off is not the end of watching; a week without anybody looking is. */
export const mostGapMs = 24 * 60 * 60 * 1000;

export interface SeenLease {
  readonly key: string;
  /** Of one holder; 0 and empty where it is not visible. */
  readonly pid: number;
  readonly command: string;
}

export interface EndedBuild {
  readonly id: string;
  readonly root: string;
  readonly key: string | null;
  readonly status: string;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly document: object;
}

export interface RegistrationSession {
  readonly id: string;
  readonly domainUuid: string;
  readonly key: string;
  readonly device: string;
  readonly startedMs: number;
  readonly endedMs: number | null;
  readonly document: object;
}

export interface AppliedCleanup {
  readonly id: string;
  readonly domainUuid: string;
  readonly atMs: number;
  readonly plannedBytes: number;
  readonly freedBytes: number | null;
  readonly document: object;
}

export class History {
  readonly path: string;
  #opened: OpenedDatabase;

  private constructor(path: string, opened: OpenedDatabase) {
    this.path = path;
    this.#opened = opened;
  }

  static async open(path: string, options: OpenOptions = {}): Promise<History> {
    return new History(path, await openDatabase(path, historyKind, options));
  }

  get problem(): string | null {
    return this.#opened.problem;
  }

  get isKept(): boolean {
    return this.#opened.isKept;
  }

  close(): void {
    this.#opened.connection.close();
  }

  /** One look at the leases of a domain: the keys on which somebody holds one now. */
  sawLeases(domainUuid: string, leases: readonly SeenLease[], atMs: number): void {
    this.#write((connection) => {
      const extended = connection
        .prepare(
          `UPDATE watch SET until_ms = max(until_ms, @atMs)
           WHERE id = (SELECT id FROM watch WHERE domain_uuid = @domainUuid ORDER BY until_ms DESC LIMIT 1)
             AND until_ms >= @atMs - ${mostGapMs}`,
        )
        .run({ domainUuid, atMs });
      if (extended.changes === 0) {
        connection
          .prepare('INSERT INTO watch (domain_uuid, since_ms, until_ms) VALUES (?, ?, ?)')
          .run(domainUuid, atMs, atMs);
      }
      const see = connection.prepare(
        `INSERT INTO lease_sighting (domain_uuid, key, first_ms, last_ms, pid, command) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (domain_uuid, key) DO UPDATE SET
           last_ms = max(last_ms, excluded.last_ms), pid = excluded.pid, command = excluded.command`,
      );
      for (const { key, pid, command } of leases) see.run(domainUuid, key, atMs, atMs, pid, command);
    });
  }

  /** Since when leases of the domain are watched without a gap, in milliseconds since 1970; null: they are not. */
  watchedSinceMs(domainUuid: string): number | null {
    // What ends with the process says nothing about the days before.
    if (!this.isKept) return null;
    return this.#read((connection) => {
      const row = connection
        .prepare('SELECT since_ms AS sinceMs FROM watch WHERE domain_uuid = ? ORDER BY until_ms DESC LIMIT 1')
        .get(domainUuid) as { sinceMs: number } | undefined;
      return row?.sinceMs ?? null;
    });
  }

  /** When a lease on the key was last seen; null: never. */
  lastLeasedMs(domainUuid: string, key: string): number | null {
    return this.#read((connection) => {
      const row = connection
        .prepare('SELECT last_ms AS lastMs FROM lease_sighting WHERE domain_uuid = ? AND key = ?')
        .get(domainUuid, key) as { lastMs: number } | undefined;
      return row?.lastMs ?? null;
    });
  }

  buildEnded({ id, root, key, status, startedMs, endedMs, document }: EndedBuild): void {
    this.#write((connection) =>
      connection
        .prepare('INSERT OR REPLACE INTO build VALUES (?, ?, ?, ?, ?, ?, ?)')
        .run(id, root, key, status, startedMs, endedMs, JSON.stringify(document)),
    );
  }

  /** The newest first. */
  builds(most: number): EndedBuild[] {
    return this.#read((connection) =>
      connection
        .prepare(
          `SELECT id, root, key, status, started_ms AS startedMs, ended_ms AS endedMs, document
           FROM build ORDER BY ended_ms DESC, id LIMIT ?`,
        )
        .all(most),
    ).map(parsed) as EndedBuild[];
  }

  /** A session that begins, or one that is known and goes on or has ended. */
  registration({ id, domainUuid, key, device, startedMs, endedMs, document }: RegistrationSession): void {
    this.#write((connection) =>
      connection
        .prepare(
          `INSERT INTO registration_session VALUES (?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET ended_ms = excluded.ended_ms, document = excluded.document`,
        )
        .run(id, domainUuid, key, device, startedMs, endedMs, JSON.stringify(document)),
    );
  }

  registrationEvent(session: string, atMs: number, document: object): void {
    this.#write((connection) =>
      connection
        .prepare('INSERT INTO registration_event (session, at_ms, document) VALUES (?, ?, ?)')
        .run(session, atMs, JSON.stringify(document)),
    );
  }

  /** In the order in which they happened. */
  registrationEvents(session: string): { atMs: number; document: unknown }[] {
    return this.#read((connection) =>
      connection
        .prepare(
          'SELECT at_ms AS atMs, document FROM registration_event WHERE session = ? ORDER BY at_ms, id',
        )
        .all(session),
    ).map(parsed) as { atMs: number; document: unknown }[];
  }

  cleanedUp({ id, domainUuid, atMs, plannedBytes, freedBytes, document }: AppliedCleanup): void {
    this.#write((connection) =>
      connection
        .prepare('INSERT OR REPLACE INTO cleanup VALUES (?, ?, ?, ?, ?, ?)')
        .run(id, domainUuid, atMs, plannedBytes, freedBytes, JSON.stringify(document)),
    );
  }

  /** The newest first. */
  cleanups(domainUuid: string, most: number): AppliedCleanup[] {
    return this.#read((connection) =>
      connection
        .prepare(
          `SELECT id, domain_uuid AS domainUuid, at_ms AS atMs, planned_bytes AS plannedBytes,
             freed_bytes AS freedBytes, document
           FROM cleanup WHERE domain_uuid = ? ORDER BY at_ms DESC, id LIMIT ?`,
        )
        .all(domainUuid, most),
    ).map(parsed) as AppliedCleanup[];
  }

  #write(work: (connection: OpenedDatabase['connection']) => unknown): void {
    this.#using((connection) => connection.transaction(work).immediate(connection));
  }

  #read<T>(work: (connection: OpenedDatabase['connection']) => T): T {
    return this.#using(work);
  }

  /** Where the file gives out, what happens from then on is kept for as long as the process lives, and it is said. */
  #using<T>(work: (connection: OpenedDatabase['connection']) => T): T {
    try {
      return work(this.#opened.connection);
    } catch (error) {
      const why = whyUnusable(error);
      if (why === null || !this.isKept) throw error;
      this.#opened.connection.close();
      const { name, loss } = historyKind;
      this.#opened = inMemory(historyKind, `${name} at ${this.path} is not used any more: ${why}. ${loss}`);
      return work(this.#opened.connection);
    }
  }
}

function parsed(row: unknown): unknown {
  const { document, ...rest } = row as { document: string };
  return { ...rest, document: JSON.parse(document) as unknown };
}
