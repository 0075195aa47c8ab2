/**
 * Searching artifacts and tensors. Every word must occur: in what the artifact is called (model, component,
 * representation, key, state ...) or in the name of one of its tensors, so that `llama q_proj` finds the query
 * projections of one model. With a dtype or a shape only tensors of that dtype and shape count, and artifacts
 * without one are not found.
 *
 * Tensors are looked at once per structure and not once per artifact; see cache-schema.ts.
 */
import type { EntryState } from '../store/inventory.ts';
import type { Connection } from './database.ts';

export interface FindQuestion {
  /** Lower or upper case alike. */
  readonly words: readonly string[];
  /** Exactly, without torch's prefix. */
  readonly dtype?: string | null;
  /** `4096x1024`. */
  readonly shape?: string | null;
  readonly offset: number;
  readonly limit: number;
}

export interface FoundTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: string;
  readonly bytes: number;
}

export interface FoundArtifact {
  readonly key: string;
  readonly state: EntryState;
  readonly name: string;
  readonly bytes: number;
  readonly model: string | null;
  readonly component: string | null;
  readonly representation: string | null;
  readonly dtype: string | null;
  readonly tensorParallelSize: number | null;
  readonly tensorParallelRank: number | null;
  /** How many of its tensors match; 0 where the artifact itself does and no tensor was asked for. */
  readonly matchingTensors: number;
  /** The first few of them. */
  readonly tensors: readonly FoundTensor[];
}

export interface Found {
  /** Of all pages. */
  readonly artifacts: number;
  readonly tensors: number;
  readonly rows: readonly FoundArtifact[];
}

/** Bits of a mask. */
export const mostWords = 16;
const shownTensors = 3;

interface Match {
  readonly id: number;
  readonly structure: number | null;
  /** Words that the artifact itself has, a bit each. */
  readonly mask: number;
  readonly tensors: number;
}

interface TensorGroup {
  readonly structure: number;
  readonly mask: number;
  readonly tensors: number;
}

/** Words beyond `mostWords` are an error of the caller's: throws RangeError. */
export function findIn(connection: Connection, domain: number, question: FindQuestion): Found {
  const words = question.words.map((word) => word.toLowerCase()).filter((word) => word !== '');
  if (words.length > mostWords) throw new RangeError(`at most ${mostWords} words`);
  const matches = matchesIn(connection, domain, words, question);
  const page = matches.slice(question.offset, question.offset + question.limit);
  return {
    artifacts: matches.length,
    tensors: matches.reduce((sum, { tensors }) => sum + tensors, 0),
    rows: rowsOf(connection, page, words, question),
  };
}

function matchesIn(
  connection: Connection,
  domain: number,
  words: readonly string[],
  question: FindQuestion,
): Match[] {
  const all = 2 ** words.length - 1;
  const asksForTensors = (question.dtype ?? null) !== null || (question.shape ?? null) !== null;
  const groups = Map.groupBy(tensorGroups(connection, domain, words, question), ({ structure }) => structure);
  const entries = connection
    .prepare(
      `SELECT id, structure, ${maskOf('words', words)} AS mask FROM entry WHERE domain = ? ORDER BY key, state, name`,
    )
    .all(...words, domain) as Omit<Match, 'tensors'>[];
  const matches: Match[] = [];
  for (const entry of entries) {
    // A tensor counts where a word is its own: of an artifact that has every word itself, not every tensor was meant.
    const tensors = (entry.structure === null ? [] : (groups.get(entry.structure) ?? [])).reduce(
      (sum, group) =>
        (entry.mask | group.mask) === all && (asksForTensors || group.mask !== 0) ? sum + group.tensors : sum,
      0,
    );
    if (tensors > 0 || (entry.mask === all && !asksForTensors)) matches.push({ ...entry, tensors });
  }
  return matches;
}

function tensorGroups(
  connection: Connection,
  domain: number,
  words: readonly string[],
  { dtype = null, shape = null }: FindQuestion,
): TensorGroup[] {
  return connection
    .prepare(
      `SELECT structure, ${maskOf('lower(name)', words)} AS mask, count(*) AS tensors FROM tensor
       WHERE structure IN (SELECT structure FROM entry WHERE domain = ?)
         AND (? IS NULL OR dtype = ?) AND (? IS NULL OR shape = ?)
       GROUP BY 1, 2`,
    )
    .all(...words, domain, dtype, dtype, shape, shape) as TensorGroup[];
}

/** SQL for a number with a bit for each word that occurs. */
function maskOf(text: string, words: readonly string[]): string {
  return words.length === 0
    ? '0'
    : words.map((_word, bit) => `(instr(${text}, ?) > 0) * ${2 ** bit}`).join(' + ');
}

function rowsOf(
  connection: Connection,
  matches: readonly Match[],
  words: readonly string[],
  { dtype = null, shape = null }: FindQuestion,
): FoundArtifact[] {
  const entry = connection.prepare(
    `SELECT key, state, name, bytes, model, component, representation, dtype,
       tensor_parallel_size AS tensorParallelSize, tensor_parallel_rank AS tensorParallelRank
     FROM entry WHERE id = ?`,
  );
  const mask = maskOf('lower(name)', words);
  const all = 2 ** words.length - 1;
  const tensors = connection.prepare(
    `SELECT name, dtype, shape, bytes FROM (SELECT *, ${mask} AS mask FROM tensor WHERE structure = ?)
     WHERE (mask | ?) = ? AND (mask <> 0 OR ?) AND (? IS NULL OR dtype = ?) AND (? IS NULL OR shape = ?)
     ORDER BY position LIMIT ${shownTensors}`,
  );
  const isAnyTensor = dtype !== null || shape !== null ? 1 : 0;
  return matches.map(({ id, structure, mask: own, tensors: matchingTensors }) => ({
    ...(entry.get(id) as Omit<FoundArtifact, 'matchingTensors' | 'tensors'>),
    matchingTensors,
    tensors:
      matchingTensors === 0
        ? []
        : (tensors.all(
            ...words,
            structure,
            own,
            all,
            isAnyTensor,
            dtype,
            dtype,
            shape,
            shape,
          ) as FoundTensor[]),
  }));
}
