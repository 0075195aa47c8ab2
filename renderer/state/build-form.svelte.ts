/** Starting a build: a checkpoint is looked into before anything runs. */
import type { BuildRequest, CheckpointInspection, Representation } from '../../src/contract/build-schemas.ts';
import type { Desk } from './desk.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

export class BuildForm {
  checkpoint = $state('');
  root = $state<string | null>(null);
  representation = $state<Representation>('preserve');
  modelId = $state('');
  revision = $state('');
  #inspection = $state.raw<CheckpointInspection | null>(null);
  #problem = $state.raw<Problem | null>(null);
  #asking = $state.raw<AbortController | null>(null);
  #inspected = $state('');
  readonly #desk: Desk;

  constructor(desk: Desk, root: string | null, checkpoint: string | null) {
    this.#desk = desk;
    this.root = root;
    this.checkpoint = checkpoint ?? '';
  }

  get inspection(): CheckpointInspection | null {
    return this.#inspection;
  }

  get problem(): Problem | null {
    return this.#problem;
  }

  get isInspecting(): boolean {
    return this.#asking !== null;
  }

  /** What is shown is about what is typed now. */
  get isCurrent(): boolean {
    return this.#inspection !== null && this.#inspected === this.#asked;
  }

  get offer(): NonNullable<CheckpointInspection['found']>['offers'][number] | undefined {
    return this.#inspection?.found?.offers.find((offer) => offer.representation === this.representation);
  }

  get request(): BuildRequest | null {
    const { root, offer } = this;
    if (root === null || !this.isCurrent || offer === undefined || offer.plan === null) return null;
    const found = this.#inspection?.found;
    const { representation } = this;
    const modelId =
      this.modelId.trim() === '' || this.modelId === found?.modelId ? null : this.modelId.trim();
    const isGuessed = this.revision.trim() === '' || this.revision === found?.revision;
    const revision = isGuessed ? null : this.revision.trim();
    return { root, checkpoint: this.checkpoint.trim(), representation, modelId, revision };
  }

  async inspect(): Promise<void> {
    this.#asking?.abort();
    const checkpoint = this.checkpoint.trim();
    if (checkpoint === '') return;
    const abort = new AbortController();
    const asked = this.#asked;
    this.#asking = abort;
    this.#problem = null;
    try {
      const { client } = this.#desk.connection;
      const inspection = await client.builds.inspect(
        { checkpoint, root: this.root },
        { signal: abort.signal },
      );
      if (abort.signal.aborted) return;
      this.#inspection = inspection;
      this.#inspected = asked;
      this.modelId = inspection.found?.modelId ?? '';
      this.revision = inspection.found?.revision ?? '';
      const possible = inspection.found?.offers.filter(({ plan }) => plan !== null) ?? [];
      const isPossible = possible.some(({ representation }) => representation === this.representation);
      if (!isPossible) this.representation = possible[0]?.representation ?? 'preserve';
    } catch (error) {
      if (!abort.signal.aborted) this.#problem = problemOf(error);
    } finally {
      if (this.#asking === abort) this.#asking = null;
    }
  }

  stop(): void {
    this.#asking?.abort();
    this.#asking = null;
  }

  get #asked(): string {
    return JSON.stringify([this.checkpoint.trim(), this.root]);
  }
}
