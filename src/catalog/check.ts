/** The catalog against the truth: every entry read anew and compared with its row, field by field. */
import { createHash } from 'node:crypto';
import type { Domain } from '../store/domain.ts';
import type { InventoryEntry } from '../store/inventory.ts';
import type { Connection } from './database.ts';
import { readEntry, type ReadEntry } from './entry-facts.ts';
import { entryId, wordsOf } from './entry-table.ts';

export interface CatalogDifference {
  /** `<state>/<name>` of the entry. */
  readonly entry: string;
  /**
   * `outdated`: the entry changed since it was last looked at, which the next look sees by its signature.
   * `wrong`: it did not, and the row is not what the disk says. That is a bug, or a damaged file.
   */
  readonly kind: 'outdated' | 'wrong';
  /** `row` where the whole entry is missing on one side. */
  readonly field: string;
  readonly catalog: string | null;
  readonly disk: string | null;
}

type Fields = Readonly<Record<string, string | number | null>>;

/** Rows of entries that changed since the last refresh differ, and that is what this says. */
export async function differences(
  connection: Connection,
  domainId: number,
  domain: Domain,
  entries: readonly InventoryEntry[],
): Promise<CatalogDifference[]> {
  const rows = rowsOf(connection, domainId);
  const found: CatalogDifference[] = [];
  for (const entry of entries) {
    const id = entryId(entry);
    const row = rows.get(id);
    rows.delete(id);
    if (row === undefined) {
      found.push({ entry: id, kind: 'outdated', field: 'row', catalog: null, disk: 'there' });
      continue;
    }
    if (row['signature'] !== entry.signature) {
      const catalog = words(row['signature'] ?? null);
      found.push({ entry: id, kind: 'outdated', field: 'signature', catalog, disk: entry.signature });
      continue;
    }
    const disk = fieldsOf(entry, await readEntry(domain, entry));
    for (const [field, value] of Object.entries(disk)) {
      const kept = row[field] ?? null;
      if (kept !== value)
        found.push({ entry: id, kind: 'wrong', field, catalog: words(kept), disk: words(value) });
    }
  }
  for (const id of rows.keys())
    found.push({ entry: id, kind: 'outdated', field: 'row', catalog: 'there', disk: null });
  return found;
}

function words(value: string | number | null): string | null {
  return value === null ? null : String(value);
}

function fieldsOf(entry: InventoryEntry, { facts, contentSha256, structure }: ReadEntry): Fields {
  return {
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
    words: wordsOf(entry, facts),
    tensors: structure?.digest ?? null,
  };
}

/** The digest of a structure is made anew from its tensors as they are in the table. */
function rowsOf(connection: Connection, domain: number): Map<string, Fields> {
  const tensors = connection.prepare(
    'SELECT name, dtype, shape, bytes FROM tensor WHERE structure = ? ORDER BY position',
  );
  const digests = new Map<number, string>();
  const digestOf = (structure: number | null): string | null => {
    if (structure === null) return null;
    const digest =
      digests.get(structure) ??
      createHash('sha256')
        .update(JSON.stringify(tensors.all(structure)))
        .digest('hex');
    digests.set(structure, digest);
    return digest;
  };
  const rows = connection
    .prepare(
      `SELECT state, name, key, signature, bytes, allocated_bytes AS allocatedBytes,
         freeable_bytes AS freeableBytes, reason, invalidated, modified_ns AS modifiedNs, model,
         model_revision AS modelRevision, component, representation, dtype, layout,
         tensor_parallel_size AS tensorParallelSize, tensor_parallel_rank AS tensorParallelRank, producer, problem,
         content_sha256 AS contentSha256, words, structure
       FROM entry WHERE domain = ?`,
    )
    .all(domain) as (Fields & { state: string; name: string; structure: number | null })[];
  return new Map(rows.map((row) => [entryId(row), { ...row, tensors: digestOf(row.structure) }]));
}
