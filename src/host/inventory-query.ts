/**
 * Which rows of a store a page shows, in which order. The last few answers are kept as orders of rows, so that
 * scrolling through ten thousand of them sorts once.
 */
import type { z } from 'zod';
import type { inventoryRequest, InventoryRow, InventorySort } from '../contract/domain-schemas.ts';
import { eachInTurn, turn } from '../store/turns.ts';

export type InventoryQuestion = z.output<typeof inventoryRequest>;

export interface MatchingRows {
  readonly rows: readonly InventoryRow[];
  readonly totalBytes: number;
}

const keptAnswers = 4;

export class InventoryQueries {
  readonly #answers = new Map<string, MatchingRows>();

  /** `state` names what the rows are from: equal states have equal rows. */
  async matching(
    state: string,
    rows: () => Promise<readonly InventoryRow[]>,
    question: InventoryQuestion,
  ): Promise<MatchingRows> {
    const { search, states, sort, descending } = question;
    const name = JSON.stringify([state, search, states, sort, descending]);
    const known = this.#answers.get(name);
    if (known !== undefined) return known;
    const answer = await select(await rows(), question);
    this.#answers.set(name, answer);
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > keptAnswers && oldest !== undefined) this.#answers.delete(oldest);
    return answer;
  }
}

export async function select(
  rows: readonly InventoryRow[],
  { search, states, sort, descending }: Pick<InventoryQuestion, 'search' | 'states' | 'sort' | 'descending'>,
): Promise<MatchingRows> {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const isWanted = await eachInTurn(
    rows,
    (row) => (states.length === 0 || states.includes(row.state)) && matches(row, words),
  );
  const matching = rows.filter((_row, index) => isWanted[index]);
  await turn();
  return {
    rows: sorted(matching, sort, descending),
    totalBytes: matching.reduce((total, { bytes }) => total + bytes, 0),
  };
}

function matches(row: InventoryRow, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const text = [
    row.name,
    row.model,
    row.modelRevision,
    row.component,
    row.representation,
    row.dtype,
    row.layout,
    row.reason,
    row.state,
  ]
    .join('\n')
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

type SortValue = number | string | null;

const values: Readonly<Record<InventorySort, (row: InventoryRow) => SortValue>> = {
  key: (row) => row.key,
  state: (row) => row.state,
  bytes: (row) => row.bytes,
  model: (row) => row.model,
  component: (row) => row.component,
  representation: (row) => row.representation,
  dtype: (row) => row.dtype,
  tensorParallel: (row) =>
    row.tensorParallelSize === null ? null : row.tensorParallelSize * 2 ** 20 + (row.tensorParallelRank ?? 0),
  modified: (row) => row.modifiedAtMs,
  lastVerified: (row) => row.lastVerified?.atMs ?? null,
};

/** Rows come in the order of key, state and name, and equal ones keep it. What is unknown comes last, always. */
function sorted(rows: readonly InventoryRow[], sort: InventorySort, descending: boolean): InventoryRow[] {
  const valueOf = values[sort];
  const sign = descending ? -1 : 1;
  if (sort === 'key' && !descending) return [...rows];
  return rows
    .map((row) => ({ row, value: valueOf(row) }))
    .sort(({ value: a }, { value: b }) => {
      if (a === b) return 0;
      if (a === null) return 1;
      if (b === null) return -1;
      return a < b ? -sign : sign;
    })
    .map(({ row }) => row);
}
