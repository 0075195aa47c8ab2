/**
 * The entries of one domain in the cache, one row each, and the structures that they share.
 *
 * Several processes may write the same domain. Each write raises the domain's revision and is refused where that
 * is not the one the writer has seen: it then looks at the rows anew and writes what is still different.
 */
import type { InventoryEntry } from '../store/inventory.ts';
import type { Connection } from './database.ts';
import type { EntryFacts, ReadEntry, Structure } from './entry-facts.ts';

export interface KnownEntry {
  readonly signature: string;
  readonly facts: EntryFacts;
}

export interface EntryWrite {
  readonly entry: InventoryEntry;
  readonly read: ReadEntry;
}

export interface TableWrite {
  readonly changed: readonly EntryWrite[];
  /** By id. */
  readonly gone: readonly string[];
  /** A row goes or is replaced, and with it perhaps the last use of a structure. */
  readonly leavesUnused: boolean;
}

/** `<state>/<name>`: unique in a domain. */
export function entryId({ state, name }: { readonly state: string; readonly name: string }): string {
  return `${state}/${name}`;
}

interface EntryRow {
  readonly state: string;
  readonly name: string;
  readonly signature: string;
  readonly model: string | null;
  readonly model_revision: string | null;
  readonly component: string | null;
  readonly representation: string | null;
  readonly dtype: string | null;
  readonly layout: string | null;
  readonly tensor_parallel_size: number | null;
  readonly tensor_parallel_rank: number | null;
  readonly producer: string | null;
  readonly problem: string | null;
}

const factColumns =
  'model, model_revision, component, representation, dtype, layout, tensor_parallel_size, tensor_parallel_rank, producer, problem';

export class EntryTable {
  readonly #connection: Connection;
  readonly #statements: ReturnType<typeof statementsOf>;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#statements = statementsOf(connection);
  }

  /** The row of a domain, made if it is new. */
  domain(uuid: string, root: string, nowMs: number): number {
    return (this.#statements.domain.get(uuid, root, nowMs) as { id: number }).id;
  }

  revision(domain: number): number {
    return (this.#statements.revision.get(domain) as { revision: number } | undefined)?.revision ?? -1;
  }

  /** What the rows say, and the revision that they are of. */
  load(domain: number): { revision: number; entries: Map<string, KnownEntry> } {
    return this.#connection.transaction(() => {
      const entries = new Map<string, KnownEntry>();
      for (const row of this.#statements.load.iterate(domain) as IterableIterator<EntryRow>) {
        entries.set(entryId(row), { signature: row.signature, facts: factsOf(row) });
      }
      return { revision: this.revision(domain), entries };
    })();
  }

  /** Writes some, takes some away. The new revision; null where somebody else wrote since `revision`. */
  write(domain: number, revision: number, { changed, gone, leavesUnused }: TableWrite): number | null {
    return this.#connection
      .transaction(() => {
        if (this.revision(domain) !== revision) return null;
        for (const id of gone) this.#statements.remove.run(domain, ...partsOf(id));
        for (const { entry, read } of changed) this.#put(domain, entry, read);
        if (leavesUnused) this.#statements.dropUnused.run();
        this.#statements.raise.run(domain);
        return revision + 1;
      })
      .immediate();
  }

  forget(domain: number): void {
    this.#connection
      .transaction(() => {
        this.#statements.removeAll.run(domain);
        this.#statements.dropUnused.run();
        this.#statements.raise.run(domain);
      })
      .immediate();
  }

  #put(domain: number, entry: InventoryEntry, { facts, contentSha256, structure }: ReadEntry): void {
    this.#statements.put.run({
      domain,
      state: entry.state,
      name: entry.name,
      key: entry.key,
      signature: entry.signature,
      bytes: entry.bytes,
      allocatedBytes: entry.allocatedBytes,
      freeableBytes: entry.freeableBytes,
      reason: entry.reason,
      invalidated: entry.invalidated ? 1 : 0,
      modifiedNs: String(entry.modifiedNs),
      ...facts,
      contentSha256,
      structure: structure === null ? null : this.#structure(structure),
      words: wordsOf(entry, facts),
    });
  }

  #structure({ digest, tensors }: Structure): number {
    const known = this.#statements.structure.get(digest) as { id: number } | undefined;
    if (known !== undefined) return known.id;
    const id = Number(this.#statements.addStructure.run(digest).lastInsertRowid);
    for (const [position, { name, dtype, shape, bytes }] of tensors.entries()) {
      this.#statements.addTensor.run(id, position, name, dtype, shape, bytes);
    }
    return id;
  }
}

function statementsOf(connection: Connection) {
  return {
    domain: connection.prepare(
      `INSERT INTO domain (uuid, root, seen_at_ms) VALUES (?, ?, ?)
       ON CONFLICT (uuid, root) DO UPDATE SET seen_at_ms = excluded.seen_at_ms RETURNING id`,
    ),
    revision: connection.prepare('SELECT revision FROM domain WHERE id = ?'),
    raise: connection.prepare('UPDATE domain SET revision = revision + 1 WHERE id = ?'),
    load: connection.prepare(`SELECT state, name, signature, ${factColumns} FROM entry WHERE domain = ?`),
    remove: connection.prepare('DELETE FROM entry WHERE domain = ? AND state = ? AND name = ?'),
    removeAll: connection.prepare('DELETE FROM entry WHERE domain = ?'),
    dropUnused: connection.prepare(
      'DELETE FROM structure WHERE NOT EXISTS (SELECT 1 FROM entry WHERE structure = structure.id)',
    ),
    structure: connection.prepare('SELECT id FROM structure WHERE digest = ?'),
    addStructure: connection.prepare('INSERT INTO structure (digest) VALUES (?)'),
    addTensor: connection.prepare(
      'INSERT INTO tensor (structure, position, name, dtype, shape, bytes) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    put: connection.prepare(
      `INSERT OR REPLACE INTO entry (domain, state, name, key, signature, bytes, allocated_bytes, freeable_bytes,
         reason, invalidated, modified_ns, ${factColumns}, content_sha256, structure, words)
       VALUES (@domain, @state, @name, @key, @signature, @bytes, @allocatedBytes, @freeableBytes,
         @reason, @invalidated, @modifiedNs, @model, @modelRevision, @component, @representation, @dtype, @layout,
         @tensorParallelSize, @tensorParallelRank, @producer, @problem, @contentSha256, @structure, @words)`,
    ),
  };
}

function partsOf(id: string): [state: string, name: string] {
  const at = id.indexOf('/');
  return [id.slice(0, at), id.slice(at + 1)];
}

/** What a person may look for, a line for each field, in lower case. */
export function wordsOf({ name, state, reason }: InventoryEntry, facts: EntryFacts): string {
  const { model, modelRevision, component, representation, dtype, layout } = facts;
  return [name, state, reason, model, modelRevision, component, representation, dtype, layout]
    .join('\n')
    .toLowerCase();
}

function factsOf(row: EntryRow): EntryFacts {
  return {
    model: row.model,
    modelRevision: row.model_revision,
    component: row.component,
    representation: row.representation,
    dtype: row.dtype,
    layout: row.layout,
    tensorParallelSize: row.tensor_parallel_size,
    tensorParallelRank: row.tensor_parallel_rank,
    producer: row.producer,
    problem: row.problem,
  };
}
