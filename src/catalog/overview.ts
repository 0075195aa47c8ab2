/** Where the bytes of a domain are: by state, model and representation, counted three ways. */
import type { EntryState } from '../store/inventory.ts';
import type { Connection } from './database.ts';

export interface OverviewGroup {
  readonly state: EntryState;
  /** Null: nothing readable says which. */
  readonly model: string | null;
  readonly representation: string | null;
  readonly entries: number;
  /** Sum of the files' sizes. */
  readonly bytes: number;
  /** What the file system set aside for them. */
  readonly allocatedBytes: number;
  /** What removing them would give back: an upper bound where blocks are shared with other files. */
  readonly freeableBytes: number;
}

export function overviewOf(connection: Connection, domain: number): OverviewGroup[] {
  return connection
    .prepare(
      `SELECT state, model, representation, count(*) AS entries, sum(bytes) AS bytes,
         sum(allocated_bytes) AS allocatedBytes, sum(freeable_bytes) AS freeableBytes
       FROM entry WHERE domain = ? GROUP BY state, model, representation ORDER BY 5 DESC, 1, 2, 3`,
    )
    .all(domain) as OverviewGroup[];
}
