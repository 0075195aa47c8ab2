/**
 * The browser host as `weightroom serve` starts it, with a meter on its event loop: the product has none. Its
 * first message to the parent is its address. `reset` starts the meter anew, `read` answers with what it has.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { serveDesk } from '../../src/host/serving.ts';

/** The meter ticks this often, so that a delay below it is not seen, and none is told larger than by that. */
const resolutionMs = 1;

export interface Delays {
  readonly maxMs: number;
  readonly p99Ms: number;
}

const meter = monitorEventLoopDelay({ resolution: resolutionMs });
const serving = await serveDesk({ env: process.env, port: 0 });
if (serving.kind !== 'first') throw new Error('another host runs in these folders');
process.on('message', (message) => {
  if (message === 'reset') {
    meter.disable();
    meter.reset();
    meter.enable();
    process.send?.('reset');
  } else if (message === 'read') {
    process.send?.({ maxMs: meter.max / 1e6, p99Ms: meter.percentile(99) / 1e6 } satisfies Delays);
  } else void serving.desk.close().then(() => process.disconnect());
});
process.send?.(serving.desk.url);
