/**
 * The catalog with 10,000 artifacts of 50 tensors, of 40 models with names of their own: against the Python
 * package's inspect_domain and its parsing of every manifest, and against what a person does not notice.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Catalog } from '../../src/catalog/catalog.ts';
import type { Domain } from '../../src/store/domain.ts';
import { inventory } from '../../src/store/inventory.ts';
import { environmentBelow } from '../e2e/real-host.ts';
import { connectDesk } from '../fixtures/desk-client.ts';
import { ensurePython } from '../interop/environment.ts';
import { PythonSide } from '../interop/python-side.ts';
import { atMost, contest, figure, median, timed, type Figure, type Row } from './measure.ts';
import type { Delays } from './metered-host.ts';
import { startWith } from './start.ts';
import { multiply, newDomain, publish } from './stores.ts';

const runs = 3;
const queries = 25;
const models = 40;
const artifacts = 10_000;
const tensors = 50;
const domains = 10;

export async function catalog(folder: string): Promise<Row[]> {
  await ensurePython();
  const domain = await bigDomain(join(folder, 'catalog'), artifacts);
  const rows: Row[] = [...(await scans(domain, folder)), ...(await answers(domain, folder))];
  rows.push(await startWith(domain, artifacts, join(folder, 'catalog-home')));
  rows.push(...(await manyAtOnce(folder)));
  return rows;
}

async function bigDomain(root: string, count: number): Promise<Domain> {
  const domain = await newDomain(root);
  const each = count / models - 1;
  for (let model = 0; model < models; model += 1) {
    const shape = { label: `model-${model}`, prefix: `model_${model}`, files: 1, tensorsPerFile: tensors };
    multiply(domain, await publish(domain, { ...shape, bytesPerTensor: 64 }), each, model * each);
  }
  return domain;
}

async function look(opened: Catalog, domain: Domain): Promise<void> {
  const { facts } = await opened.refresh(domain, await inventory(domain));
  if (facts.some(({ model }) => model === null)) throw new Error('an artifact without a model');
}

function freshFile(folder: string): string {
  const path = join(folder, 'catalog.sqlite');
  for (const suffix of ['', '-wal', '-shm', '.lock']) rmSync(`${path}${suffix}`, { force: true });
  return path;
}

async function withCatalog<T>(path: string, work: (opened: Catalog) => Promise<T>): Promise<T> {
  const opened = await Catalog.open(path);
  try {
    return await work(opened);
  } finally {
    opened.close();
  }
}

async function scans(domain: Domain, folder: string): Promise<Row[]> {
  const python = await PythonSide.start();
  const again: number[] = [];
  const within: number[] = [];
  try {
    const { store } = await python.open({ root: domain.root });
    const times = await contest({
      runs,
      ours: async () => {
        const path = freshFile(folder);
        const first = await timed(() => withCatalog(path, (opened) => look(opened, domain)));
        // The next process, and the same one once more.
        await withCatalog(path, async (opened) => {
          again.push(await timed(() => look(opened, domain)));
          within.push(await timed(() => look(opened, domain)));
        });
        return first;
      },
      theirs: async () => {
        const { tensors: read, elapsedSeconds } = await python.readManifests(store);
        if (read !== artifacts * tensors) throw new Error(`${read} tensors`);
        return elapsedSeconds * 1000;
      },
    });
    const unchanged = { ours: median(again.slice(1)), theirs: times.ours };
    const what = `${artifacts.toLocaleString('en')} artifacts of ${tensors} tensors`;
    return [
      atMost(
        `catalog: first scan of ${what}, against inspect_domain and every manifest parsed`,
        0.8,
        runs,
        times,
      ),
      atMost('catalog: an unchanged scan by the next process, against the first scan', 0.1, runs, unchanged),
      atMost('catalog: an unchanged scan by the same process, against the first scan', 0.1, runs, {
        ...unchanged,
        ours: median(within.slice(1)),
      }),
    ];
  } finally {
    await python.close();
  }
}

async function answers(domain: Domain, folder: string): Promise<Figure[]> {
  return await withCatalog(join(folder, 'catalog.sqlite'), async (opened) => {
    await look(opened, domain);
    const find = (words: readonly string[]): Promise<unknown> =>
      opened.find(domain, { words, dtype: null, shape: null, offset: 0, limit: 100 });
    return [
      await answer('the overview', 5, () => opened.overview(domain)),
      await answer('a search for one tensor', 30, () => find(['model_7.', 'layer.12.'])),
      await answer('a search that every tensor matches', 30, () => find(['weight'])),
      await answer('a search for a model and a tensor', 30, () => find(['many/copy-7', 'layer.31'])),
    ];
  });
}

async function answer(what: string, boundMs: number, ask: () => Promise<unknown>): Promise<Figure> {
  const times: number[] = [];
  await ask();
  for (let run = 0; run < queries; run += 1) times.push(await timed(ask));
  const remark = `longest ${Math.max(...times).toFixed(1)} ms`;
  return figure(`catalog: ${what}`, boundMs, { value: median(times), unit: 'ms', runs: queries, remark });
}

/** Ten stores that the host has never seen, opened at the same moment: all of them write the one catalog. */
async function manyAtOnce(folder: string): Promise<Figure[]> {
  const each = artifacts / domains;
  const roots: string[] = [];
  for (let index = 0; index < domains; index += 1) {
    roots.push((await bigDomain(join(folder, `domain-${index}`), each)).root);
  }
  const child = fork(join(import.meta.dirname, 'metered-host.ts'), {
    env: await environmentBelow(join(folder, 'many-home')),
    execArgv: [],
  });
  try {
    const [url] = (await once(child, 'message')) as [string];
    const { client, close } = await connectDesk(url);
    child.send('reset');
    await once(child, 'message');
    const elapsed = await timed(() =>
      Promise.all(
        roots.map(async (root) => {
          await client.stores.open({ root });
          const { groups } = await client.domain.overview({ root });
          const entries = groups.reduce((sum, group) => sum + group.entries, 0);
          if (entries !== each) throw new Error(`${entries} entries in ${root}`);
        }),
      ),
    );
    child.send('read');
    const [{ maxMs, p99Ms }] = (await once(child, 'message')) as [Delays];
    const { problems } = await client.app.status();
    if (problems.length > 0) throw new Error(JSON.stringify(problems));
    close();
    const name = `event-loop delay of the host: ${domains} new stores of ${each.toLocaleString('en')} artifacts at once`;
    const remark = `99 % within ${p99Ms.toFixed(1)} ms, all known after ${(elapsed / 1000).toFixed(1)} s`;
    return [figure(name, 50, { value: maxMs, unit: 'ms', runs: 1, remark })];
  } finally {
    child.send('close');
    await once(child, 'exit');
  }
}
