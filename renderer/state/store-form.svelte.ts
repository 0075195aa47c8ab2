/** The form that makes a store: what is typed, and what the host says about it, a moment after each key. */
import type { Admission, StoreCheck, StorePlan } from '../../src/contract/store-schemas.ts';
import { readSize } from '../words/bytes.ts';
import type { Desk } from './desk.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

type Field = StoreCheck['problems'][number]['field'];
type FieldProblem = StoreCheck['problems'][number];

export class StoreForm {
  path = $state('');
  admission = $state<Admission>('serialized');
  maxStore = $state('');
  maxArtifact = $state('');
  minFree = $state('');
  #check = $state.raw<StoreCheck | null>(null);
  #checkProblem = $state.raw<Problem | null>(null);
  #checked = $state.raw<string>('');
  readonly #desk: Desk;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  get plan(): StorePlan {
    return {
      path: this.path.trim(),
      admission: this.admission,
      maxStoreBytes: sizeOrNull(this.maxStore),
      maxArtifactBytes: sizeOrNull(this.maxArtifact),
      minFreeBytes: sizeOrNull(this.minFree) ?? 0,
    };
  }

  get check(): StoreCheck | null {
    return this.#check;
  }

  get checkProblem(): Problem | null {
    return this.#checkProblem;
  }

  /** What is shown is about what is typed now. */
  get isChecked(): boolean {
    return this.#check !== null && this.#checked === JSON.stringify(this.plan);
  }

  get canCreate(): boolean {
    if (!this.isChecked || this.plan.path === '' || this.#unreadable().length > 0) return false;
    return (
      this.#check?.policyDocument !== null && this.problemsOf().every(({ severity }) => severity !== 'error')
    );
  }

  problemsOf(field?: Field): readonly FieldProblem[] {
    const all = [...this.#unreadable(), ...(this.#check?.problems ?? [])];
    return field === undefined ? all : all.filter((problem) => problem.field === field);
  }

  async ask(plan: StorePlan, signal: AbortSignal): Promise<void> {
    try {
      const check = await this.#desk.connection.client.stores.check(plan, { signal });
      if (signal.aborted) return;
      this.#check = check;
      this.#checked = JSON.stringify(plan);
      this.#checkProblem = null;
    } catch (error) {
      if (!signal.aborted) this.#checkProblem = problemOf(error);
    }
  }

  /** What the host never sees, because it is no number of bytes. */
  #unreadable(): FieldProblem[] {
    const typed = {
      maxStoreBytes: this.maxStore,
      maxArtifactBytes: this.maxArtifact,
      minFreeBytes: this.minFree,
    };
    return Object.entries(typed)
      .filter(([, text]) => text.trim() !== '' && readSize(text) === null)
      .map(([field]) => ({
        field: field as Field,
        severity: 'error' as const,
        message: 'This is not a size: write it as 192 GiB, 1.5 TB or a number of bytes.',
      }));
  }
}

function sizeOrNull(text: string): number | null {
  return text.trim() === '' ? null : readSize(text);
}
