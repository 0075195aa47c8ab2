/**
 * The rows of a long list that are looked at: asked for a page at a time, around what is on screen. When the
 * question or the list changes, what is shown stays until the new answer is there, so that nothing jumps.
 */
import type { DeskClient } from '../../src/contract/contract.ts';
import type { Connection } from '../connection/connection.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

export interface RowsPage<Row> {
  readonly total: number;
  readonly totalBytes: number;
  readonly offset: number;
  readonly rows: readonly Row[];
}

const pageRows = 100;
/** Of all that were scrolled through; a page is asked for again after this. */
const keptPages = 30;

export class PagedRows<Question, Row> {
  #total = $state<number | null>(null);
  #totalBytes = $state(0);
  #pages = $state.raw<ReadonlyMap<number, readonly Row[]>>(new Map());
  #problem = $state.raw<Problem | null>(null);
  #isLoading = $state(false);
  readonly #connection: Connection;
  readonly #ask: (
    client: DeskClient,
    question: Question & { offset: number; limit: number },
  ) => Promise<RowsPage<Row>>;
  #question: Question | null = null;
  #generation = 0;
  #shownGeneration = 0;
  #visible = { first: 0, end: pageRows };
  readonly #asked = new Set<number>();

  constructor(
    connection: Connection,
    ask: (
      client: DeskClient,
      question: Question & { offset: number; limit: number },
    ) => Promise<RowsPage<Row>>,
  ) {
    this.#connection = connection;
    this.#ask = ask;
  }

  /** Of all that match; null until known. */
  get total(): number | null {
    return this.#total;
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  get problem(): Problem | null {
    return this.#problem;
  }

  get isLoading(): boolean {
    return this.#isLoading;
  }

  row(index: number): Row | undefined {
    return this.#pages.get(Math.floor(index / pageRows))?.[index % pageRows];
  }

  /** Another question, or the same one about a list that changed. */
  async ask(question: Question): Promise<void> {
    this.#question = question;
    this.#generation += 1;
    this.#asked.clear();
    await this.#fetchVisible();
  }

  /** What is on screen now. */
  show(first: number, end: number): void {
    this.#visible = { first, end };
    void this.#fetchVisible();
  }

  async #fetchVisible(): Promise<void> {
    const question = this.#question;
    if (question === null || this.#connection.state !== 'open') return;
    const generation = this.#generation;
    const { first, end } = this.#visible;
    const from = Math.floor(first / pageRows);
    const to = Math.floor(Math.max(first, end - 1) / pageRows);
    const wanted = [];
    for (let page = from; page <= to; page += 1) if (!this.#asked.has(page)) wanted.push(page);
    if (wanted.length === 0) return;
    for (const page of wanted) this.#asked.add(page);
    this.#isLoading = true;
    try {
      const answers = await Promise.all(
        wanted.map((page) =>
          this.#ask(this.#connection.client, { ...question, offset: page * pageRows, limit: pageRows }),
        ),
      );
      if (generation === this.#generation) this.#take(answers);
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#asked.clear();
      if (this.#connection.state === 'open') this.#problem = problemOf(error);
    } finally {
      if (generation === this.#generation) this.#isLoading = false;
    }
  }

  #take(answers: readonly RowsPage<Row>[]): void {
    // The first answer to a new question takes the place of the old rows, whichever page it is.
    const pages = new Map(this.#shownGeneration === this.#generation ? this.#pages : []);
    this.#shownGeneration = this.#generation;
    for (const answer of answers) {
      pages.set(answer.offset / pageRows, answer.rows);
      this.#total = answer.total;
      this.#totalBytes = answer.totalBytes;
    }
    for (const page of pages.keys()) {
      if (pages.size <= keptPages) break;
      pages.delete(page);
      this.#asked.delete(page);
    }
    this.#pages = pages;
    this.#problem = null;
    // What is beyond the end of a list that became shorter is looked at again from its end.
    const last = Math.max(0, (this.#total ?? 0) - 1);
    if (this.#visible.first > last) this.show(Math.max(0, last - pageRows), last + 1);
  }
}
