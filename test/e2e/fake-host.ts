/**
 * A host that tells what a test wants it to: the real browser host and the real transport, with a router over
 * plain data in place of the Workstation. For states that are hard to bring about for real.
 */
import { dirname, resolve } from 'node:path';
import { implement } from '@orpc/server';
import type { ActivityEntry, AppEvent, Settings } from '../../src/contract/app-schemas.ts';
import type { VerificationEvent } from '../../src/contract/artifact-schemas.ts';
import type { Build, BuildList, BuildRequest } from '../../src/contract/build-schemas.ts';
import { contract } from '../../src/contract/contract.ts';
import { failure, type Failure } from '../../src/contract/failure.ts';
import type { DomainLocks, InventoryRow } from '../../src/contract/domain-schemas.ts';
import type { Store, StoreCheck, StorePlan } from '../../src/contract/store-schemas.ts';
import { BrowserHost } from '../../src/host/browser-host.ts';
import type { DeskContext, DeskRouter } from '../../src/host/desk-router.ts';
import { RpcServer } from '../../src/host/rpc-connection.ts';
import * as data from './fake-data.ts';

export interface FakeStore {
  store: Store;
  rows: readonly InventoryRow[];
}

export class FakeDesk {
  stores: FakeStore[] = [];
  builds: Build[] = [];
  elsewhere: BuildList['elsewhere'] = [];
  activity: ActivityEntry[] = [];
  problems: { atMs: number; message: string }[] = [];
  settings: Settings = { theme: 'system', stores: [] };
  locks: DomainLocks = { measuredAtMs: Date.now(), held: [], free: 3 };
  check: (plan: StorePlan) => StoreCheck = checkOf;
  verification: (key: string) => readonly VerificationEvent[] = verificationOf;
  tensors = data.tensors(1200);
  /** Between two events of a verification. */
  paceMs = 50;
  started: BuildRequest[] = [];
  readonly #listeners = new Set<() => void>();
  #events: AppEvent[] = [];
  revision = 1;

  /** Tells every page that something changed. */
  tell(event: AppEvent): void {
    this.#events.push(event);
    for (const listener of this.#listeners) listener();
  }

  /** Something on the disk of every store changed. */
  touch(): void {
    this.revision += 1;
    for (const listener of this.#listeners) listener();
  }

  async *events(signal: AbortSignal | undefined): AsyncGenerator<AppEvent> {
    let seen = this.#events.length;
    yield { type: 'subscribed' };
    while (signal?.aborted !== true) {
      await this.#change(signal);
      for (const event of this.#events.slice(seen)) yield event;
      seen = this.#events.length;
    }
  }

  async *changes(
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ revision: number; measuredAtMs: number; online: boolean }> {
    let told = 0;
    while (signal?.aborted !== true) {
      if (told !== this.revision) yield { revision: this.revision, measuredAtMs: Date.now(), online: true };
      told = this.revision;
      await this.#change(signal);
    }
  }

  #change(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((done) => {
      const end = (): void => {
        this.#listeners.delete(end);
        done();
      };
      this.#listeners.add(end);
      signal?.addEventListener('abort', end, { once: true });
    });
  }

  find(root: string): FakeStore {
    const found = this.stores.find(({ store }) => store.root === root);
    if (found === undefined)
      throw failing(failure('domain', 'domain_unavailable', `${root} is not a known store.`));
    if (found.store.state === 'offline') throw failing(found.store.failure);
    return found;
  }
}

function failing(value: Failure): Error {
  return Object.assign(new Error(value.message), { failure: value });
}

export function fakeRouter(desk: FakeDesk): DeskRouter {
  const os = implement(contract)
    .$context<DeskContext>()
    .use(async ({ next, errors }) => {
      try {
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
    desk.builds.unshift(data.build(id, startedAtMs, { startedAtMs, phases, progress: null, ...changes }));
    desk.tell({ type: 'builds' });
    return { id };
  };
  return os.router({
    app: {
      status: os.app.status.handler(({ context }) => ({
        version: '0.1.0',
        pid: 4242,
        startedAtMs: Date.now() - 90 * data.minute,
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
        const limitGib = input.maxStoreBytes === null ? null : input.maxStoreBytes / data.gib;
        const store = data.storeOf(input.path, [], Date.now(), { limitGib });
        desk.stores.push({ store, rows: [] });
        desk.tell({ type: 'stores' });
        return { store, existing: false, notice: null };
      }),
    },
    domain: {
      overview: os.domain.overview.handler(({ input }) => {
        const groups = [
          ...Map.groupBy(desk.find(input.root).rows, (row) =>
            JSON.stringify([row.state, row.model, row.representation]),
          ).values(),
        ].map((rows) => {
          const [{ state, model, representation }] = rows as [InventoryRow];
          const bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
          const allocatedBytes = rows.reduce((sum, row) => sum + row.allocatedBytes, 0);
          return {
            state,
            model,
            representation,
            entries: rows.length,
            bytes,
            allocatedBytes,
            freeableBytes: allocatedBytes,
          };
        });
        return { groups: groups.sort((a, b) => b.bytes - a.bytes) };
      }),
      find: os.domain.find.handler(({ input }) => {
        const rows = desk
          .find(input.root)
          .rows.filter((row) => `${row.key} ${row.model}`.toLowerCase().includes(input.search.toLowerCase()));
        const { offset, limit } = input;
        const found = rows.map((row) => ({ ...row, matchingTensors: 0, tensors: [] }));
        return {
          revision: desk.revision,
          artifacts: rows.length,
          tensors: 0,
          offset,
          rows: found.slice(offset, offset + limit),
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
        return { store, models: data.treemap(rows) };
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
        return data.artifact(input.root, entry, desk.tensors);
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
    builds: {
      inspect: os.builds.inspect.handler(({ input }) => data.inspection(input.checkpoint)),
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

function checkOf(plan: StorePlan): StoreCheck {
  const problems: StoreCheck['problems'][number][] = [];
  if (plan.admission === 'serialized' && plan.maxStoreBytes === null) {
    problems.push({
      field: 'maxStoreBytes',
      severity: 'error',
      message: 'Serialized admission needs a store limit.',
    });
  }
  if (plan.path !== '' && !plan.path.startsWith('/')) {
    problems.push({ field: 'path', severity: 'error', message: 'The path must begin with / or ~.' });
  }
  const isNowhere = !plan.path.startsWith('/');
  const policy = {
    eviction: 'none',
    max_store_bytes: plan.maxStoreBytes,
    policy_version: 1,
    schema_version: 2,
  };
  return {
    path: isNowhere ? null : plan.path,
    found: 'nothing',
    filesystem: isNowhere ? null : { type: 'ext4', class: 'disk' },
    owner: isNowhere ? null : { uid: 1000, name: 'ada', isYou: true },
    mode: isNowhere ? null : '0755',
    nearestFolder: isNowhere ? null : '/data',
    freeBytes: isNowhere ? null : 900 * data.gib,
    problems,
    policyDocument: problems.some(({ field }) => field === 'maxStoreBytes') ? null : JSON.stringify(policy),
    existingPolicyDocument: null,
  };
}

function verificationOf(key: string): VerificationEvent[] {
  const totalBytes = 20 * data.gib;
  const progress = Array.from({ length: 20 }, (_, n): VerificationEvent => {
    const bytesPerSecond = n < 2 ? null : 2.1 * data.gib;
    return {
      type: 'progress',
      doneBytes: n * data.gib,
      totalBytes,
      bytesPerSecond,
      secondsLeft: bytesPerSecond === null ? null : (20 - n) / 2.1,
    };
  });
  const result = {
    key,
    status: 'valid',
    level: 'full_checksum',
    bytes: totalBytes,
    elapsedMs: 9500,
    atMs: Date.now(),
    failure: null,
  } as const;
  return [...progress, { type: 'result', result }];
}

export const rendererFolder = resolve(import.meta.dirname, '../../dist/renderer');

/** Serves `desk` until it is closed. `port`: 0 for any. */
export async function serveFake(desk: FakeDesk, port = 0): Promise<BrowserHost> {
  return await BrowserHost.start({ rpc: new RpcServer(fakeRouter(desk)), rendererFolder, port });
}

/** A workstation where a lot is going on. */
export function busyDesk(count = 240): FakeDesk {
  const nowMs = Date.now();
  const desk = new FakeDesk();
  const big = data.rows(count, nowMs);
  const small = data
    .rows(14, nowMs)
    .map((one, n) => ({ ...one, id: `${one.id}`, bytes: Math.floor(one.bytes / (n + 2)) }));
  desk.stores = [
    {
      store: data.storeOf('/data/weights', big, nowMs, {
        limitGib: count > 1000 ? 200_000 : 2600,
        freeGib: 410,
      }),
      rows: big,
    },
    { store: data.storeOf('/scratch/ada/omni-weights', small, nowMs, { freeGib: 380 }), rows: small },
    { store: data.offlineStore('/mnt/nvme2/weights-old'), rows: [] },
  ];
  desk.builds = [
    data.build('b1', nowMs),
    data.build('b2', nowMs, {
      modelId: 'black-forest-labs/FLUX.1-dev',
      startedAtMs: nowMs - 2 * data.minute,
      phases: [
        { phase: 'starting', startedAtMs: nowMs - 2 * data.minute },
        { phase: 'waiting-for-admission', startedAtMs: nowMs - 1.8 * data.minute },
      ],
      progress: null,
      waitingFor: 'held by process 41322 (node src/production/build-process.ts)',
    }),
    data.failedBuild('b3', nowMs),
    data.builtBuild('b4', nowMs),
  ];
  const command = 'python3 -m vllm_omni.weights build --model Qwen/Qwen2.5-Omni-7B';
  desk.elsewhere = [
    {
      root: '/scratch/ada/omni-weights',
      key: data.keyOf('artifact 3'),
      pid: 40_011,
      command,
      holdsAdmission: false,
      seenSinceMs: nowMs - 3 * data.minute,
    },
  ];
  desk.locks = data.locks(nowMs);
  const entry = (id: number, changes: Partial<ActivityEntry>): ActivityEntry => ({
    id: String(id),
    atMs: nowMs - id * 7 * data.minute,
    kind: 'build-ended',
    severity: 'information',
    message: '',
    root: null,
    key: null,
    buildId: null,
    failure: null,
    ...changes,
  });
  desk.activity = [
    entry(1, {
      message: 'A build of Qwen/Qwen3-Omni-30B-A3B into weights started.',
      kind: 'build-started',
      root: '/data/weights',
      buildId: 'b1',
    }),
    entry(2, {
      message: 'The build of Wan-AI/Wan2.2-T2V-A14B failed.',
      severity: 'failure',
      root: '/data/weights',
      buildId: 'b3',
      failure: desk.builds[2]?.result?.failure ?? null,
    }),
    entry(3, {
      message: 'Qwen/Qwen2.5-Omni-7B was built into weights: 15.0 GiB in 4 minutes.',
      root: '/data/weights',
      key: data.keyOf('artifact 1'),
      buildId: 'b4',
    }),
    entry(4, {
      message: 'weights-old went offline.',
      severity: 'warning',
      kind: 'app',
      root: '/mnt/nvme2/weights-old',
    }),
    ...Array.from({ length: 12 }, (_, n) =>
      entry(5 + n * 13, {
        message: `An artifact of ${['FLUX.1-dev', 'Wan2.2-T2V-A14B'][n % 2]} was verified: it is whole.`,
        kind: 'artifact-verified' as const,
        root: '/data/weights',
        key: data.keyOf(`artifact ${n}`),
      }),
    ),
  ];
  return desk;
}
