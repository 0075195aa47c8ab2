/**
 * Cleanups and restorations that somebody asked for here: each is done by the process that reads the store,
 * passed on as it goes, and noted when it is over, also when whoever asked has left.
 */
import type {
  CleanupEvent,
  CleanupSummary,
  RestorationEvent,
  RestoreRequest,
} from '../contract/cleanup-schemas.ts';
import { formatBytes } from '../contract/bytes.ts';
import type { ActivityLog, Happening } from './activity-log.ts';
import { callError } from './call-errors.ts';
import { EventStream } from './event-stream.ts';
import type { KnownStore } from './known-store.ts';

export interface DeskCleaningOptions {
  readonly activity: ActivityLog;
  readonly onBug: (error: unknown) => void;
}

export class DeskCleaning {
  readonly #activity: ActivityLog;
  readonly #onBug: (error: unknown) => void;

  constructor({ activity, onBug }: DeskCleaningOptions) {
    this.#activity = activity;
    this.#onBug = onBug;
  }

  /** Stops between two entries when its reader leaves. */
  apply(store: KnownStore, planId: string, signal: AbortSignal | undefined): EventStream<CleanupEvent> {
    // The run itself is read to its end, so that what went is known.
    const stop = (): void =>
      void store.ask(({ stopCleanup }) => stopCleanup({ planId })).catch(() => undefined);
    let isOver = false;
    const stream = new EventStream<CleanupEvent>({
      signal,
      onClose: () => {
        if (!isOver) stop();
      },
    });
    void this.#applyInto(stream, store, planId)
      .catch((error: unknown) => {
        isOver = true;
        stream.fail(callError(error, this.#onBug));
      })
      .finally(() => {
        isOver = true;
        stream.end();
      });
    return stream.start();
  }

  async #applyInto(stream: EventStream<CleanupEvent>, store: KnownStore, planId: string): Promise<void> {
    const { root, lost } = store;
    const gone = { entries: 0, bytes: 0 };
    try {
      for await (const event of await store.ask(({ cleanup }) =>
        cleanup.apply({ root, planId }, { signal: lost }),
      )) {
        stream.push(event);
        if (event.type === 'result') return this.#note(cleanedUp(root, event.summary));
        if (event.result.status !== 'removed') continue;
        gone.entries += 1;
        gone.bytes += event.result.removedBytes;
      }
    } catch (error) {
      if (gone.entries > 0) this.#note(cutOff(root, gone));
      throw lost.aborted ? lost.reason : error;
    }
    if (gone.entries > 0) this.#note(cutOff(root, gone));
    if (lost.aborted) throw lost.reason;
    throw new Error(`the cleanup of ${root} ended without its summary`);
  }

  /** Given up when its reader leaves before the entry is moved. */
  restore(
    store: KnownStore,
    request: RestoreRequest,
    signal: AbortSignal | undefined,
  ): EventStream<RestorationEvent> {
    const leaving = new AbortController();
    const stream = new EventStream<RestorationEvent>({ signal, onClose: () => leaving.abort() });
    void this.#restoreInto(stream, store, request, leaving.signal).catch((error: unknown) =>
      stream.fail(callError(error, this.#onBug)),
    );
    return stream.start();
  }

  async #restoreInto(
    stream: EventStream<RestorationEvent>,
    store: KnownStore,
    request: RestoreRequest,
    leaving: AbortSignal,
  ): Promise<void> {
    const { root, lost } = store;
    const signal = AbortSignal.any([leaving, lost]);
    try {
      for await (const event of await store.ask(({ cleanup }) => cleanup.restore(request, { signal }))) {
        if (event.type === 'result') {
          const { key } = event;
          const message = `Restored artifact ${key.slice(0, 12)} from quarantine: every byte was checked.`;
          this.#note({ kind: 'artifact-restored', message, root, key });
        }
        stream.push(event, event.type === 'progress' ? 'progress' : null);
      }
    } catch (error) {
      if (leaving.aborted) return;
      throw lost.aborted ? lost.reason : error;
    }
    if (lost.aborted) throw lost.reason;
    stream.end();
  }

  #note(happening: Happening): void {
    this.#activity.add(happening);
  }
}

function cleanedUp(root: string, summary: CleanupSummary): Happening {
  const { counts, removedBytes, isCancelled, entriesLeft } = summary;
  const stayed = counts.changed + counts['in-use'] + counts.refused + counts.failed;
  const words = [
    `Cleaned up ${root}: ${entriesOf(counts.removed)} removed, ${formatBytes(removedBytes)}.`,
    ...(stayed > 0 ? [`${entriesOf(stayed)} stayed: in use, changed, or not to be removed.`] : []),
    ...(isCancelled ? [`It was stopped with ${entriesOf(entriesLeft)} to go.`] : []),
  ];
  const severity = counts.refused + counts.failed > 0 ? 'warning' : 'information';
  return { kind: 'store-cleaned', severity, message: words.join(' '), root };
}

function cutOff(root: string, { entries, bytes }: { entries: number; bytes: number }): Happening {
  const message = `The cleanup of ${root} was cut off after ${entriesOf(entries)} (${formatBytes(bytes)}). What it left is in the next plan.`;
  return { kind: 'store-cleaned', severity: 'warning', message, root };
}

function entriesOf(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}
