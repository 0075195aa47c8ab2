/**
 * How long the host's event loop is held up while it scans a store of 10,000 artifacts, answers what a page asks
 * about it, shows an artifact with a large manifest, and runs a build.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { DeskClient } from '../../src/contract/contract.ts';
import { environmentBelow } from '../e2e/real-host.ts';
import { connectDesk } from '../fixtures/desk-client.ts';
import { writeCheckpoint } from './build.ts';
import { figure, type Figure } from './measure.ts';
import type { Delays } from './metered-host.ts';
import { multiply, newDomain, publish } from './stores.ts';

const runs = 5;
const artifacts = 10_000;
const tensors = 20_000;
const boundMs = 50;

export async function eventLoop(folder: string): Promise<Figure[]> {
  const domain = await newDomain(join(folder, 'event-loop'));
  const small = await publish(domain, { label: 'small', files: 1, tensorsPerFile: 4, bytesPerTensor: 1024 });
  multiply(domain, small, artifacts - 2);
  const shape = { label: 'many tensors', files: 4, tensorsPerFile: tensors / 4, bytesPerTensor: 2 };
  const { key } = await publish(domain, shape);
  const checkpoint = join(folder, 'event-loop-checkpoint');
  writeCheckpoint(checkpoint, 512 * 1024 ** 2);

  const child = fork(join(import.meta.dirname, 'metered-host.ts'), {
    env: await environmentBelow(join(folder, 'event-loop-home')),
    execArgv: [],
  });
  try {
    const [url] = (await once(child, 'message')) as [string];
    const { client, close } = await connectDesk(url);
    const { root } = domain;
    const figures = [
      await measured(child, 'the first scan of 10,000 artifacts', 1, async () => {
        await client.stores.open({ root });
      }),
      await measured(
        child,
        'a page of 10,000 artifacts: listed, sorted, searched, summed up',
        runs,
        async () => {
          await askLikeAPage(client, root);
        },
      ),
      await measured(child, 'an artifact of 20,000 tensors, shown', runs, async () => {
        await client.artifact.show({ root, key });
        await client.artifact.tensors({ root, key, search: 'layer.77' });
      }),
      await measured(child, 'an artifact of 20,000 tensors, verified', runs, async () => {
        for await (const event of await client.artifact.verify({ root, key })) {
          if (event.type === 'result' && event.result.status !== 'valid')
            throw new Error(JSON.stringify(event));
        }
      }),
      await measured(child, 'a build of 512 MiB with scans of 10,000 artifacts around it', 1, async () => {
        await buildAndWatch(client, root, checkpoint);
      }),
    ];
    close();
    return figures;
  } finally {
    child.send('close');
    await once(child, 'exit');
  }
}

async function measured(
  child: ChildProcess,
  what: string,
  times: number,
  work: () => Promise<void>,
): Promise<Figure> {
  child.send('reset');
  await once(child, 'message');
  for (let run = 0; run < times; run += 1) await work();
  child.send('read');
  const [{ maxMs, p99Ms }] = (await once(child, 'message')) as [Delays];
  const remark = `99 % within ${p99Ms.toFixed(1)} ms`;
  return figure(`event-loop delay of the host: ${what}`, boundMs, {
    value: maxMs,
    unit: 'ms',
    runs: times,
    remark,
  });
}

async function askLikeAPage(client: DeskClient, root: string): Promise<void> {
  const view = { root, limit: 100 };
  await Promise.all([
    client.domain.summary({ root }),
    client.domain.locks({ root }),
    client.domain.inventory({ ...view, sort: 'bytes', descending: true }),
    client.domain.inventory({ ...view, sort: 'modified', descending: true }),
    client.domain.inventory({ ...view, search: 'copy-7' }),
    client.domain.inventory({ ...view, offset: 9000 }),
  ]);
}

/** As the page of the store does: each change is a reason to ask again. */
async function buildAndWatch(client: DeskClient, root: string, checkpoint: string): Promise<void> {
  const leaving = new AbortController();
  const watching = (async (): Promise<void> => {
    for await (const { online } of await client.domain.watch({ root }, { signal: leaving.signal })) {
      if (online) await askLikeAPage(client, root);
    }
  })().catch((error: unknown) => {
    if (!leaving.signal.aborted) throw error;
  });
  const { id } = await client.builds.start({ root, checkpoint });
  for await (const event of await client.builds.watch({ id })) {
    if (event.type === 'result' && event.build.result?.status !== 'built') {
      throw new Error(JSON.stringify(event.build.result));
    }
  }
  leaving.abort();
  await watching;
}
