/** Cleaning up one store as its page shows it: the plan, the switches, a run, and a restoration. */
import {
  cleanupGroups,
  publishedGroups,
  type CleanupGroup,
  type CleanupPlan,
  type CleanupSummary,
  type EntryResult,
  type PlannedEntry,
  type PlannedGroup,
  type RestorationEvent,
} from '../../src/contract/cleanup-schemas.ts';
import type { Desk } from './desk.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import { problemOf, type Problem } from './problem.ts';

export interface Run {
  readonly done: number;
  readonly total: number;
  readonly removedBytes: number;
  readonly results: ReadonlyMap<string, EntryResult>;
  readonly isGoing: boolean;
  /** Null while it goes on, and where it was left or lost before its end. */
  readonly summary: CleanupSummary | null;
}

export interface Restoring {
  readonly id: string;
  readonly progress: Extract<RestorationEvent, { type: 'progress' }> | null;
}

export const dayMs = 24 * 3600_000;
const pageOfEntries = 200;

function isPublished(group: CleanupGroup): boolean {
  return (publishedGroups as readonly CleanupGroup[]).includes(group);
}

export class CleanupView {
  readonly root: string;
  readonly plan: LiveValue<CleanupPlan>;
  readonly #desk: Desk;
  #on = $state.raw<ReadonlySet<CleanupGroup>>(new Set(cleanupGroups.filter((group) => !isPublished(group))));
  #keepLatest = $state(1);
  #unusedDays = $state(30);
  #isAsking = $state(false);
  /** Of the plan that is shown: lines that were asked for beyond the first. */
  #more = $state.raw<ReadonlyMap<CleanupGroup, readonly PlannedEntry[]>>(new Map());
  #run = $state.raw<Run | null>(null);
  #runProblem = $state.raw<Problem | null>(null);
  #running: AbortController | null = null;
  #restoring = $state.raw<Restoring | null>(null);
  #restoreProblem = $state.raw<{ readonly id: string; readonly problem: Problem } | null>(null);
  #givingUp: AbortController | null = null;

  constructor(desk: Desk, root: string) {
    this.root = root;
    this.#desk = desk;
    this.plan = new LiveValue(desk.connection, (client) =>
      client.cleanup.plan({
        root,
        groups: cleanupGroups.filter((group) => this.#on.has(group)),
        keepLatest: this.#keepLatest,
        unusedAfterMs: this.#unusedDays * dayMs,
      }),
    );
  }

  /** Leaving the page stops what was begun on it. */
  leave(): void {
    this.stop();
    this.giveUpRestoring();
  }

  isOn(group: CleanupGroup): boolean {
    return this.#on.has(group);
  }

  get keepLatest(): number {
    return this.#keepLatest;
  }

  get unusedDays(): number {
    return this.#unusedDays;
  }

  get run(): Run | null {
    return this.#run;
  }

  get runProblem(): Problem | null {
    return this.#runProblem;
  }

  get restoring(): Restoring | null {
    return this.#restoring;
  }

  get restoreProblem(): { readonly id: string; readonly problem: Problem } | null {
    return this.#restoreProblem;
  }

  /** A plan for other switches than those that are set is never applied. */
  get isPlanning(): boolean {
    return this.#isAsking;
  }

  get isBusy(): boolean {
    return this.#run?.isGoing === true || this.#restoring !== null;
  }

  /** Something in the store changed since the plan was made. */
  get isOutdated(): boolean {
    const plan = this.plan.value;
    return plan !== null && this.#desk.stores.revisionOf(this.root) > plan.revision;
  }

  get isTooOld(): boolean {
    const plan = this.plan.value;
    return plan !== null && this.#desk.nowMs > plan.goodUntilMs;
  }

  get canApply(): boolean {
    const plan = this.plan.value;
    return (
      plan !== null &&
      plan.going.entries > 0 &&
      this.#run === null &&
      !this.#isAsking &&
      !this.isBusy &&
      !this.isTooOld &&
      !this.plan.isStale
    );
  }

  entriesOf({ group, entries }: PlannedGroup): readonly PlannedEntry[] {
    return [...entries, ...(this.#more.get(group) ?? [])];
  }

  toggle(group: CleanupGroup): void {
    const on = new Set(this.#on);
    if (!on.delete(group)) on.add(group);
    this.#on = on;
    void this.makePlan();
  }

  keep(releases: number): void {
    this.#keepLatest = releases;
    void this.makePlan();
  }

  callUnusedAfter(days: number): void {
    this.#unusedDays = days;
    void this.makePlan();
  }

  async makePlan(): Promise<void> {
    this.#isAsking = true;
    try {
      await this.plan.refresh();
    } finally {
      this.#isAsking = this.plan.isLoading;
    }
    if (this.#isAsking) return;
    this.#more = new Map();
    this.#run = null;
    this.#runProblem = null;
    this.#restoreProblem = null;
  }

  async showMore(group: PlannedGroup): Promise<void> {
    const { value: plan } = this.plan;
    if (plan === null) return;
    const shown = this.entriesOf(group).length;
    const { rows } = await this.#desk.connection.client.cleanup.entries({
      root: this.root,
      planId: plan.id,
      group: group.group,
      offset: shown,
      limit: pageOfEntries,
    });
    if (this.plan.value !== plan) return;
    const before = this.#more.get(group.group) ?? [];
    this.#more = new Map(this.#more).set(group.group, [...before, ...rows]);
  }

  async apply(): Promise<void> {
    const plan = this.plan.value;
    if (plan === null || !this.canApply) return;
    const abort = new AbortController();
    this.#running = abort;
    this.#runProblem = null;
    this.#run = {
      done: 0,
      total: plan.going.entries,
      removedBytes: 0,
      results: new Map(),
      isGoing: true,
      summary: null,
    };
    try {
      const { client } = this.#desk.connection;
      const request = { root: this.root, planId: plan.id };
      for await (const event of await client.cleanup.apply(request, { signal: abort.signal })) {
        if (event.type === 'entry') this.#take(event.result, event.done);
        else this.#run = { ...this.#run, summary: event.summary };
      }
    } catch (error) {
      // Stopping ends the stream in a way that differs from transport to transport.
      if (!abort.signal.aborted) this.#runProblem = problemOf(error);
    } finally {
      this.#run = { ...this.#run, isGoing: false };
      this.#running = null;
    }
  }

  stop(): void {
    this.#running?.abort();
  }

  /** True when it is back in service. */
  async restore({ id, name }: PlannedEntry): Promise<boolean> {
    const abort = new AbortController();
    this.#givingUp = abort;
    this.#restoring = { id, progress: null };
    this.#restoreProblem = null;
    try {
      const { client } = this.#desk.connection;
      const events = await client.cleanup.restore({ root: this.root, name }, { signal: abort.signal });
      for await (const event of events) {
        if (event.type === 'progress') this.#restoring = { id, progress: event };
        else return true;
      }
      return false;
    } catch (error) {
      if (!abort.signal.aborted) this.#restoreProblem = { id, problem: problemOf(error) };
      return false;
    } finally {
      this.#restoring = null;
      this.#givingUp = null;
    }
  }

  giveUpRestoring(): void {
    this.#givingUp?.abort();
  }

  #take(result: EntryResult, done: number): void {
    if (this.#run === null) return;
    const results = this.#run.results as Map<string, EntryResult>;
    results.set(result.id, result);
    const removedBytes = this.#run.removedBytes + result.removedBytes;
    this.#run = { ...this.#run, done, removedBytes, results };
  }
}
