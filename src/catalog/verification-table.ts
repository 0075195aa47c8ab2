/** How the last check of each artifact came out, under the signature that the artifact had then. */
import type { InventoryRow } from '../contract/domain-schemas.ts';
import type { InventoryEntry } from '../store/inventory.ts';
import type { Connection } from './database.ts';

export type KnownVerification = NonNullable<InventoryRow['lastVerified']>;

interface VerificationRow extends Omit<KnownVerification, 'atMs'> {
  readonly key: string;
  readonly signature: string;
  readonly at_ms: number;
}

export class VerificationTable {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  put(domain: number, { key, signature }: InventoryEntry, { level, status, atMs }: KnownVerification): void {
    this.#connection
      .prepare(
        `INSERT OR REPLACE INTO verification (domain, key, signature, level, status, at_ms) VALUES (?, ?, ?, ?, ?, ?)`,
      )
      .run(domain, key, signature, level, status, atMs);
  }

  of(domain: number, entries: readonly InventoryEntry[]): Map<string, KnownVerification> {
    const rows = this.#connection
      .prepare('SELECT key, signature, level, status, at_ms FROM verification WHERE domain = ?')
      .all(domain) as VerificationRow[];
    if (rows.length === 0) return new Map();
    const now = new Map(
      entries.flatMap(({ state, key, signature }) => (state === 'ready' ? [[key, signature]] : [])),
    );
    return new Map(
      rows
        .filter(({ key, signature }) => now.get(key) === signature)
        .map(({ key, level, status, at_ms: atMs }) => [key, { level, status, atMs }]),
    );
  }
}
