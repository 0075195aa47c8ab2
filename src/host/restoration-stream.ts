/** A restoration that belongs to whoever asked for it: told as it is checked, given up when they leave before the move. */
import { newProgress } from '#native';
import type { RestorationEvent } from '../contract/cleanup-schemas.ts';
import { TransferRate } from '../production/transfer-rate.ts';
import type { Domain } from '../store/domain.ts';
import { restoreQuarantined } from '../store/restore.ts';
import { EventStream } from './event-stream.ts';
import { valueOf } from './outcomes.ts';

export interface RestorationRun {
  /** Basename in `quarantine/`. */
  readonly name: string;
  /** Of the entry, for how far it is. */
  readonly bytes: number;
  /** Fires when the caller is gone. */
  readonly signal: AbortSignal | undefined;
  /** It was tried: the store may have changed. */
  readonly onEnd: () => void;
  /** What the caller is to get for what was thrown. */
  readonly translate: (error: unknown) => unknown;
}

const reportEveryMs = 100;

export function restorationStream(domain: Domain, run: RestorationRun): EventStream<RestorationEvent> {
  const leaving = new AbortController();
  const stream = new EventStream<RestorationEvent>({
    signal: run.signal,
    onClose: () => leaving.abort(new Error('the caller left')),
  });
  void restoreInto(stream, domain, run, leaving.signal)
    .catch((error: unknown) => {
      if (!leaving.signal.aborted) stream.fail(run.translate(error));
    })
    .finally(run.onEnd);
  return stream.start();
}

async function restoreInto(
  stream: EventStream<RestorationEvent>,
  domain: Domain,
  { name, bytes: totalBytes }: RestorationRun,
  signal: AbortSignal,
): Promise<void> {
  const progress = newProgress();
  const rate = new TransferRate();
  const report = (): void => {
    const doneBytes = Math.min(Number(Atomics.load(progress, 0)), totalBytes);
    rate.add(performance.now(), doneBytes);
    const { bytesPerSecond } = rate;
    const secondsLeft = rate.secondsLeft(totalBytes);
    stream.push({ type: 'progress', doneBytes, totalBytes, bytesPerSecond, secondsLeft }, 'progress');
  };
  const timer = setInterval(report, reportEveryMs);
  try {
    report();
    const restored = valueOf(await restoreQuarantined(domain, name, { signal, progress }));
    stream.push({ type: 'result', ...restored });
    stream.end();
  } finally {
    clearInterval(timer);
  }
}
