/** One store as its page shows it: the picture, the locks, and the rows that are asked for. */
import type {
  DomainLocks,
  DomainSummary,
  InventoryRequest,
  InventoryRow,
  InventorySort,
} from '../../src/contract/domain-schemas.ts';
import type { EntryState } from '../../src/contract/store-schemas.ts';
import type { Desk } from './desk.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import { PagedRows } from './paged-rows.svelte.ts';

export type InventoryQuestion = Omit<InventoryRequest, 'offset' | 'limit'>;

export class StoreView {
  readonly root: string;
  readonly summary: LiveValue<DomainSummary>;
  readonly locks: LiveValue<DomainLocks>;
  readonly rows: PagedRows<InventoryQuestion, InventoryRow>;
  search = $state('');
  states = $state.raw<readonly EntryState[]>([]);
  sort = $state<InventorySort>('model');
  descending = $state(false);
  #allRows = $state<number | null>(null);

  constructor(desk: Desk, root: string) {
    this.root = root;
    this.summary = new LiveValue(desk.connection, (client) => client.domain.summary({ root }), 500);
    this.locks = new LiveValue(desk.connection, (client) => client.domain.locks({ root }));
    this.rows = new PagedRows(desk.connection, async (client, question) => {
      const page = await client.domain.inventory(question);
      this.#allRows = page.allRows;
      return page;
    });
  }

  /** Of the store, whatever is searched for. */
  get allRows(): number | null {
    return this.#allRows;
  }

  get isFiltered(): boolean {
    return this.search.trim() !== '' || this.states.length > 0;
  }

  get question(): InventoryQuestion {
    const { root, search, states, sort, descending } = this;
    return { root, search: search.trim(), states: [...states], sort, descending };
  }

  toggleState(state: EntryState): void {
    const without = this.states.filter((other) => other !== state);
    this.states = without.length < this.states.length ? without : [...this.states, state];
  }

  sortBy(sort: InventorySort, descending: boolean): void {
    this.sort = sort;
    this.descending = descending;
  }

  showAll(): void {
    this.search = '';
    this.states = [];
  }
}
