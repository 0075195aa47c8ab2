/**
 * Cleaning up one store, in the process that reads it: plans that were shown are kept here, and only these are
 * applied. So what goes is what somebody saw, and a client can't make up a plan.
 */
import type { z } from 'zod';
import { apply, type CleanupEvent as EngineEvent } from '../cleanup/apply.ts';
import type { CleanupGroup } from '../cleanup/groups.ts';
import type { UseHistory } from '../cleanup/history.ts';
import {
  planLifetimeMs,
  type CleanupPlan as EnginePlan,
  type PlannedEntry as EngineEntry,
} from '../cleanup/plan.ts';
import {
  cleanupGroups,
  type CleanupEvent,
  type CleanupPlan,
  type planEntries,
  type planEntriesRequest,
  type PlannedEntry,
  type PlannedGroup,
  type planRequest,
} from '../contract/cleanup-schemas.ts';
import { failure, FailureError } from '../contract/failure.ts';
import { quarantineReason } from '../store/paths.ts';
import { eachInTurn, turn } from '../store/turns.ts';
import { planCleanup } from './cleaning.ts';
import { valueOf } from './outcomes.ts';
import type { SnapshotRow } from './store-snapshot.ts';
import type { OnlineLook, WatchedStore } from './watched-store.ts';

export interface StoreCleaningOptions {
  readonly now: () => number;
  /** Null: none is kept, and nothing is called unused. */
  readonly history: UseHistory | null;
}

interface ShownPlan {
  readonly plan: EnginePlan;
  readonly byGroup: ReadonlyMap<CleanupGroup, readonly PlannedEntry[]>;
}

/** One for each of a few pages; an older one is made anew. */
const keptPlans = 8;
/** With the plan; the others are asked for. */
const firstEntries = 100;

const stateOf = { artifacts: 'ready', deny: 'denied', quarantine: 'quarantined', tmp: 'temporary' } as const;

export class StoreCleaning {
  readonly #store: WatchedStore;
  readonly #options: StoreCleaningOptions;
  readonly #plans = new Map<string, ShownPlan>();
  readonly #runs = new Map<string, AbortController>();

  constructor(store: WatchedStore, options: StoreCleaningOptions) {
    this.#store = store;
    this.#options = options;
  }

  async plan(request: z.output<typeof planRequest>): Promise<CleanupPlan> {
    const { groups, unusedAfterMs, keepLatest } = request;
    const look = await this.#store.online();
    const options = { unusedAfterMs, keepLatest, ...(groups === undefined ? {} : { groups }) };
    const plan = valueOf(await planCleanup(look.domain, options, this.#options));
    const entries = await shownEntries(plan.entries, look);
    const byGroup = Map.groupBy(plan.entries.keys(), (index) => (plan.entries[index] as EngineEntry).group);
    const shown = {
      plan,
      byGroup: new Map(
        [...byGroup].map(([group, some]) => [group, some.map((index) => entries[index] as PlannedEntry)]),
      ),
    };
    this.#keep(shown);
    await turn();
    return answerOf(shown, look.revision);
  }

  entries(request: z.output<typeof planEntriesRequest>): z.output<typeof planEntries> {
    const { planId, group, offset, limit } = request;
    const entries = this.#shown(planId).byGroup.get(group) ?? [];
    return { total: entries.length, offset, rows: entries.slice(offset, offset + limit) };
  }

  /** A removal goes on to its end when the caller leaves; what comes after it stays. Throws FailureError. */
  async *apply(planId: string, signal: AbortSignal | undefined): AsyncGenerator<CleanupEvent, void, void> {
    const { plan } = this.#shown(planId);
    const stopping = new AbortController();
    const stop = (): void => stopping.abort();
    const { now, history } = this.#options;
    const events = valueOf(await apply(plan, { now, history, signal: stopping.signal }));
    signal?.addEventListener('abort', stop);
    if (signal?.aborted === true) stop();
    this.#runs.set(planId, stopping);
    try {
      for await (const event of events) yield toldAs(event);
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#runs.delete(planId);
      this.#store.touch();
    }
  }

  /** Between two entries; the run then tells its summary. Stopping what does not run does nothing. */
  stop(planId: string): void {
    this.#runs.get(planId)?.abort();
  }

  #keep(shown: ShownPlan): void {
    this.#plans.set(shown.plan.id, shown);
    const [oldest] = this.#plans.keys();
    if (this.#plans.size > keptPlans && oldest !== undefined) this.#plans.delete(oldest);
  }

  #shown(planId: string): ShownPlan {
    const shown = this.#plans.get(planId);
    if (shown !== undefined) return shown;
    throw new FailureError(
      failure(
        'lifecycle',
        'quarantine_failed',
        'this plan is not known any more: others were made since, or the process that made it ended. Nothing was removed; make a new plan.',
        { details: { plan_id: planId } },
      ),
    );
  }
}

async function shownEntries(
  entries: readonly EngineEntry[],
  { snapshot }: OnlineLook,
): Promise<PlannedEntry[]> {
  const rows = new Map<string, SnapshotRow>();
  await eachInTurn(snapshot.rows, (row) => rows.set(row.id, row));
  return await eachInTurn(entries, ({ id, group, place, name, key, reason, bytes, freedBytes }) => {
    const row = rows.get(`${stateOf[place]}/${name}`);
    const isRestorable =
      group === 'quarantined' &&
      quarantineReason(name) !== 'identity-collision' &&
      !rows.has(`${stateOf.artifacts}/${key}`);
    const [model, component] = [row?.model ?? null, row?.component ?? null];
    return { id, place, name, key, reason, bytes, freedBytes, model, component, isRestorable };
  });
}

function answerOf({ plan, byGroup }: ShownPlan, revision: number): CleanupPlan {
  const { id, madeAtMs, domain, options, entries, kept, groups, other, storeBytes } = plan;
  return {
    id,
    root: domain.root,
    madeAtMs,
    goodUntilMs: madeAtMs + planLifetimeMs,
    revision,
    unusedAfterMs: options.unusedAfterMs,
    keepLatest: options.keepLatest,
    going: goingOf(entries),
    staying: sumOf(kept),
    groups: cleanupGroups.map((group): PlannedGroup => {
      const offer = groups.find((each) => each.group === group);
      const going = byGroup.get(group) ?? [];
      const staying = kept.filter((each) => each.group === group);
      return {
        group,
        isAskedFor: offer?.isAskedFor ?? false,
        fitting: fittingOf(offer?.entries ?? null, offer?.bytes ?? null),
        unavailable: offer?.unavailable ?? null,
        going: goingOf(going),
        staying: sumOf(staying),
        entries: going.slice(0, firstEntries),
        kept: staying.slice(0, firstEntries).map(({ id: keptId, key, bytes, because, reason }) => ({
          id: keptId,
          key,
          bytes,
          because,
          reason,
        })),
      };
    }),
    unexplained: sumOf(other),
    storeBytes,
  };
}

function fittingOf(entries: number | null, bytes: number | null): PlannedGroup['fitting'] {
  return entries === null || bytes === null ? null : { entries, bytes };
}

function sumOf(some: readonly { readonly bytes: number }[]): { entries: number; bytes: number } {
  return { entries: some.length, bytes: some.reduce((total, { bytes }) => total + bytes, 0) };
}

function goingOf(
  some: readonly { readonly bytes: number; readonly freedBytes: number }[],
): CleanupPlan['going'] {
  return { ...sumOf(some), freedBytes: some.reduce((total, { freedBytes }) => total + freedBytes, 0) };
}

function toldAs(event: EngineEvent): CleanupEvent {
  if (event.type === 'summary') return { type: 'result', summary: event.summary };
  const { done, total, result } = event;
  const { id, key, status, removedBytes, failure: why } = result;
  return { type: 'entry', done, total, result: { id, key, status, removedBytes, failure: why } };
}
