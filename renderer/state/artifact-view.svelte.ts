/** One artifact as its page shows it: what it is, its tensors, and a verification that somebody started here. */
import type {
  Artifact,
  TensorRow,
  TensorsRequest,
  Verification,
  VerificationEvent,
} from '../../src/contract/artifact-schemas.ts';
import type { Desk } from './desk.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import { PagedRows } from './paged-rows.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

export type TensorsQuestion = Omit<TensorsRequest, 'offset' | 'limit'>;
export type TensorSort = NonNullable<TensorsRequest['sort']>;
type Progress = Extract<VerificationEvent, { type: 'progress' }>;

export class ArtifactView {
  readonly artifact: LiveValue<Artifact>;
  readonly tensors: PagedRows<TensorsQuestion, TensorRow>;
  search = $state('');
  sort = $state<TensorSort>('name');
  descending = $state(false);
  #progress = $state.raw<Progress | null>(null);
  #result = $state.raw<Verification | null>(null);
  #problem = $state.raw<Problem | null>(null);
  #verifying = $state.raw<AbortController | null>(null);
  readonly #desk: Desk;
  readonly #which: { readonly root: string; readonly key: string };

  constructor(desk: Desk, root: string, key: string) {
    this.#desk = desk;
    this.#which = { root, key };
    this.artifact = new LiveValue(desk.connection, (client) => client.artifact.show({ root, key }), 300);
    this.tensors = new PagedRows(desk.connection, (client, question) => client.artifact.tensors(question));
  }

  get question(): TensorsQuestion {
    const { search, sort, descending } = this;
    return { ...this.#which, search: search.trim(), sort, descending };
  }

  /** The store answers, and has it no more, or never had it. */
  get isGone(): boolean {
    return this.artifact.problem?.failure?.code === 'local_miss';
  }

  get isVerifying(): boolean {
    return this.#verifying !== null;
  }

  get progress(): Progress | null {
    return this.#progress;
  }

  /** Of the verification that was started here last. */
  get result(): Verification | null {
    return this.#result;
  }

  get verifyProblem(): Problem | null {
    return this.#problem;
  }

  async verify(level: Verification['level']): Promise<void> {
    const abort = new AbortController();
    this.#verifying = abort;
    this.#progress = null;
    this.#result = null;
    this.#problem = null;
    try {
      const { client } = this.#desk.connection;
      const events = await client.artifact.verify({ ...this.#which, level }, { signal: abort.signal });
      for await (const event of events) {
        if (event.type === 'progress') this.#progress = event;
        else this.#result = event.result;
      }
      await this.artifact.refresh();
    } catch (error) {
      // Cancelling ends the stream in a way that differs from transport to transport.
      if (!abort.signal.aborted) this.#problem = problemOf(error);
    } finally {
      if (this.#verifying === abort) this.#verifying = null;
    }
  }

  cancelVerifying(): void {
    this.#verifying?.abort();
    this.#verifying = null;
    this.#progress = null;
  }

  async remove(): Promise<{ readonly removed: boolean; readonly removedBytes: number }> {
    return await this.#desk.connection.client.artifact.remove(this.#which);
  }
}
