/** The whole contract over a FakeDesk. */
import { dirname } from 'node:path';
import { implement } from '@orpc/server';
import type { Build } from '../../../src/contract/build-schemas.ts';
import { contract } from '../../../src/contract/contract.ts';
import type { InventoryRow } from '../../../src/contract/domain-schemas.ts';
import { failure, type Failure } from '../../../src/contract/failure.ts';
import type { DeskContext, DeskRouter } from '../../../src/host/desk-router.ts';
import { build, inspection } from './builds.ts';
import { planOf } from './cleanups.ts';
import { failing, type FakeDesk } from './desk.ts';
import { overview, storeOf, treemap } from './stores.ts';
import { gib, minute } from './units.ts';

export function fakeRouter(desk: FakeDesk): DeskRouter {
  const os = implement(contract)
    .$context<DeskContext>()
    .use(async ({ next, errors, path, signal }) => {
      const call = path.join('.');
      if (desk.silent.has(call)) {
        await new Promise<void>((done) => signal?.addEventListener('abort', () => done(), { once: true }));
      }
      try {
        const why = desk.failures.get(call);
        if (why !== undefined) throw failing(why);
        return await next();
      } catch (error) {
        const value = (error as { failure?: Failure }).failure;
        if (value === undefined) throw error;
        throw errors.FAILURE({ data: value, message: value.message });
      }
    });
  const startBuild = (changes: Partial<Build>): { id: string } => {
    const id = `b${desk.builds.length + 100}`;
    const startedAtMs = Date.now();
    const phases = [{ phase: 'starting' as const, startedAtMs }];
    desk.builds.unshift(build(id, startedAtMs, { startedAtMs, phases, progress: null, ...changes }));
    desk.tell({ type: 'builds' });
    return { id };
  };
  return os.router({
    app: {
      status: os.app.status.handler(({ context }) => ({
        version: '0.1.0',
        pid: 4242,
        startedAtMs: Date.now() - 90 * minute,
        transport: context.transport,
        nodeVersion: '24.21.0',
        hostName: 'lab-ws-03',
        userName: 'ada',
        homeFolder: '/home/ada',
        folders: {
          config: '/home/ada/.config/weightroom',
          state: '/home/ada/.local/state/weightroom',
          cache: '/home/ada/.cache/weightroom',
          data: '/home/ada/.local/share/weightroom',
        },
        problems: desk.problems,
      })),
      events: os.app.events.handler(({ signal }) => desk.events(signal)),
    },
    stores: {
      list: os.stores.list.handler(() => desk.stores.map(({ store }) => store)),
      open: os.stores.open.handler(({ input }) => desk.find(input.root).store),
      forget: os.stores.forget.handler(({ input }) => {
        desk.stores = desk.stores.filter(({ store }) => store.root !== input.root);
        desk.tell({ type: 'stores' });
        return {};
      }),
      check: os.stores.check.handler(({ input }) => desk.check(input)),
      create: os.stores.create.handler(({ input }) => {
        const limitGib = input.maxStoreBytes === null ? null : input.maxStoreBytes / gib;
        const store = storeOf(input.path, [], Date.now(), { limitGib });
        desk.stores.push({ store, rows: [] });
        desk.tell({ type: 'stores' });
        return { store, existing: false, notice: null };
      }),
    },
    domain: {
      overview: os.domain.overview.handler(({ input }) => ({ groups: overview(desk.find(input.root).rows) })),
      find: os.domain.find.handler(({ input: { root, search, offset, limit } }) => {
        const wanted = search.toLowerCase();
        const rows = desk
          .find(root)
          .rows.filter(({ key, model }) => `${key} ${model}`.toLowerCase().includes(wanted))
          .map((row) => ({ ...row, matchingTensors: 0, tensors: [] }));
        return {
          revision: desk.revision,
          artifacts: rows.length,
          tensors: 0,
          offset,
          rows: rows.slice(offset, offset + limit),
        };
      }),
      inventory: os.domain.inventory.handler(({ input }) => {
        const words = input.search.toLowerCase().split(/\s+/).filter(Boolean);
        const all = desk.find(input.root).rows;
        const found = all.filter((row) => {
          if (input.states.length > 0 && !input.states.includes(row.state)) return false;
          const text = [row.key, row.model, row.component, row.dtype, row.reason].join(' ').toLowerCase();
          return words.every((word) => text.includes(word));
        });
        const sorted = found.sort((a, b) => compare(sortValue(a, input.sort), sortValue(b, input.sort)));
        if (input.descending) sorted.reverse();
        return {
          revision: desk.revision,
          measuredAtMs: Date.now(),
          total: sorted.length,
          totalBytes: sorted.reduce((sum, { bytes }) => sum + bytes, 0),
          allRows: all.length,
          offset: input.offset,
          rows: sorted.slice(input.offset, input.offset + input.limit),
        };
      }),
      summary: os.domain.summary.handler(({ input }) => {
        const { store, rows } = desk.find(input.root);
        return { store, models: treemap(rows) };
      }),
      locks: os.domain.locks.handler(({ input }) => {
        desk.find(input.root);
        return { ...desk.locks, measuredAtMs: Date.now() };
      }),
      watch: os.domain.watch.handler(({ signal }) => desk.changes(signal)),
    },
    artifact: {
      show: os.artifact.show.handler(({ input }) => {
        const entry = desk.find(input.root).rows.find(({ key }) => key === input.key);
        if (entry === undefined) {
          throw failing(
            failure(
              'lookup',
              'local_miss',
              'The store has nothing under this key. It may have been removed.',
            ),
          );
        }
        return desk.artifact(input.root, entry);
      }),
      tensors: os.artifact.tensors.handler(({ input }) => {
        const found = desk.tensors.filter(({ name, dtype }) => `${name} ${dtype}`.includes(input.search));
        const by = input.sort === 'file' ? 'fileName' : input.sort;
        const sorted = found.sort((a, b) => compare(a[by], b[by]));
        if (input.descending) sorted.reverse();
        const totalBytes = sorted.reduce((sum, { bytes }) => sum + bytes, 0);
        const { offset, limit } = input;
        return { total: sorted.length, totalBytes, offset, rows: sorted.slice(offset, offset + limit) };
      }),
      verify: os.artifact.verify.handler(async function* ({ input }) {
        for (const event of desk.verification(input.key)) {
          yield event;
          await new Promise((done) => setTimeout(done, desk.paceMs));
        }
      }),
      remove: os.artifact.remove.handler(({ input }) => {
        const found = desk.find(input.root);
        const row = found.rows.find(({ key }) => key === input.key);
        found.rows = found.rows.filter((other) => other !== row);
        desk.touch();
        return { removed: row !== undefined, removedBytes: row?.bytes ?? 0 };
      }),
    },
    cleanup: {
      plan: os.cleanup.plan.handler(({ input }) => {
        const { rows } = desk.find(input.root);
        desk.plan = planOf(input.root, rows, input, desk.revision);
        return desk.plan;
      }),
      entries: os.cleanup.entries.handler(({ input: { group: name, offset, limit } }) => {
        const entries = desk.plan?.groups.find(({ group }) => group === name)?.entries ?? [];
        return { total: entries.length, offset, rows: entries.slice(offset, offset + limit) };
      }),
      apply: os.cleanup.apply.handler(async function* ({ input }) {
        const { plan } = desk;
        if (plan?.id !== input.planId) {
          throw failing(failure('lifecycle', 'quarantine_failed', 'this plan is not known any more.'));
        }
        const found = desk.find(input.root);
        for (const event of desk.cleaning(plan)) {
          if (event.type === 'entry' && event.result.status === 'removed') {
            const { id } = event.result;
            found.rows = found.rows.filter(({ name }) => !id.endsWith(`/${name}`));
          }
          yield event;
          await new Promise((done) => setTimeout(done, desk.paceMs));
        }
        desk.touch();
      }),
      restore: os.cleanup.restore.handler(async function* ({ input: { root, name } }) {
        const found = desk.find(root);
        const row = found.rows.find((each) => each.name === name);
        if (row === undefined) {
          throw failing(failure('lookup', 'local_miss', `there is no quarantine/${name}`));
        }
        for (const event of desk.restoration(row.key)) {
          if (event.type === 'result') {
            const restored = { ...row, state: 'ready', name: row.key, id: `ready/${row.key}` } as const;
            found.rows = found.rows.map((each) => (each === row ? { ...restored, served: true } : each));
            desk.touch();
          }
          yield event;
          await new Promise((done) => setTimeout(done, desk.paceMs));
        }
      }),
    },
    builds: {
      inspect: os.builds.inspect.handler(({ input }) => inspection(input.checkpoint)),
      start: os.builds.start.handler(({ input }) => {
        desk.started.push(input);
        return startBuild({ root: input.root, checkpoint: input.checkpoint });
      }),
      list: os.builds.list.handler(() => ({ builds: desk.builds, elsewhere: desk.elsewhere })),
      watch: os.builds.watch.handler(async function* ({ input, signal }) {
        const found = desk.builds.find(({ id }) => id === input.id);
        if (found === undefined) throw failing(failure('lifecycle', 'local_miss', 'There is no such build.'));
        yield { type: 'state' as const, build: found };
        await new Promise<void>((done) => signal?.addEventListener('abort', () => done(), { once: true }));
      }),
      cancel: os.builds.cancel.handler(({ input }) => {
        const endedAtMs = Date.now();
        desk.builds = desk.builds.map((one) => {
          if (one.id !== input.id) return one;
          const elapsedMs = endedAtMs - one.startedAtMs;
          const result = {
            status: 'cancelled' as const,
            key: null,
            artifactBytes: null,
            elapsedMs,
            failure: null,
            leftBehind: [],
          };
          return { ...one, endedAtMs, progress: null, result };
        });
        desk.tell({ type: 'builds' });
        return {};
      }),
      dismiss: os.builds.dismiss.handler(({ input }) => {
        desk.builds = desk.builds.filter(({ id }) => id !== input.id);
        desk.tell({ type: 'builds' });
        return {};
      }),
    },
    gpus: {
      list: os.gpus.list.handler(() => noGpus),
      setMode: os.gpus.setMode.handler(({ input: { uuid, mode = 'auto', limitGib = 0 } }) => ({
        uuid,
        mode,
        limitGib,
      })),
      flags: os.gpus.flags.handler(() => ({ flags: [], remarks: [] })),
    },
    registrations: {
      start: os.registrations.start.handler(() => {
        throw failing(noDriver);
      }),
      list: os.registrations.list.handler(() => ({ registrations: [] })),
      watch: os.registrations.watch.handler(() => {
        throw failing(noDriver);
      }),
      end: os.registrations.end.handler(() => ({ gone: true })),
      diagnose: os.registrations.diagnose.handler(() => ({ findings: [], evidence: {} })),
      bundle: os.registrations.bundle.handler(() => ({})),
    },
    workers: {
      list: os.workers.list.handler(() => ({ workers: [] })),
      followLog: os.workers.followLog.handler(() => {
        throw failing(noDriver);
      }),
    },
    sample: {
      start: os.sample.start.handler(() => startBuild({ kind: 'sample', checkpoint: null, modelId: null })),
    },
    activity: { list: os.activity.list.handler(() => ({ entries: desk.activity, more: false })) },
    settings: {
      get: os.settings.get.handler(() => desk.settings),
      update: os.settings.update.handler(({ input }) => {
        desk.settings = { ...desk.settings, theme: input.theme ?? desk.settings.theme };
        desk.tell({ type: 'settings', settings: desk.settings });
        return desk.settings;
      }),
    },
    files: {
      browse: os.files.browse.handler(({ input }) => {
        const path = input.path ?? '/models';
        const names = ['Qwen3-Omni-30B-A3B', 'Qwen2.5-Omni-7B', 'broken-model', 'notes'];
        const entries = names.map((name) => ({
          name,
          path: `${path}/${name}`,
          kind: 'folder' as const,
          looksLike: name === 'notes' ? null : ('checkpoint' as const),
          sizeBytes: null,
          modifiedAtMs: Date.now(),
        }));
        return { path, parent: path === '/' ? null : dirname(path), entries, truncated: false };
      }),
    },
  });
}

function sortValue(row: InventoryRow, sort: string): unknown {
  const names: Readonly<Record<string, keyof InventoryRow>> = {
    tensorParallel: 'tensorParallelSize',
    modified: 'modifiedAtMs',
  };
  if (sort === 'lastVerified') return row.lastVerified?.atMs ?? 0;
  return row[names[sort] ?? (sort as keyof InventoryRow)];
}

function compare(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b));
}

const noDriver = failure('configuration', 'unsupported', 'No NVIDIA driver found.');

const noGpus = {
  gpus: [],
  library: null,
  simulated: false,
  driverVersion: null,
  driver: null,
  notes: [],
  failure: noDriver,
};
