/**
 * Faults at every file-system call of building, quarantining and removing: no space, an I/O error, no
 * permission, and death of the process just before the call. strace puts them in from outside.
 *
 * One run shows which calls there are. Then each call fails once, in a copy of the same domain, and
 * another process looks at what is left:
 *   - what looks published verifies in full, and what was published before still is;
 *   - no lock is held, the caller got a value and no exception;
 *   - one retry of the key succeeds, and after it `tmp/` is empty and nothing is half-moved.
 *
 * A call that changes nothing does not run out of space, and dying before it is dying before the next call
 * that changes something: such calls get the two errors that they can have. close(2) is left alone: an
 * injected error keeps it from closing, which the kernel never does.
 */
import { chmodSync, lstatSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { defaultGroups } from '../../../src/cleanup/groups.ts';
import type { CleanupPlan } from '../../../src/cleanup/plan.ts';
import {
  copyFolder,
  copyOfDomain,
  giveTo,
  isRoot,
  KiB,
  nobody,
  ProcessEnded,
  removeFolder,
  startProcess,
  store,
  temporaryFolder,
  type Scenario,
  type StoreProcess,
} from '../../fixtures/store.ts';
import type { ResultReport } from '../../fixtures/store-protocol.ts';
import { straceProblem, threadsNamed, Tracer, type TracedCall } from '../../fixtures/store-strace.ts';

if (straceProblem !== null) console.log(`faults are not injected on this machine: ${straceProblem}`);

const content = { bytes: 4 * KiB, seed: 7 };
const calls =
  'openat newfstatat fstat lstat stat statx mkdir mkdirat rename renameat renameat2 unlink unlinkat rmdir chmod fchmod fchmodat ftruncate fallocate fsync fdatasync pread64 pwrite64 getdents64 flock statfs access faccessat faccessat2'.split(
    ' ',
  );
const changing =
  /^(mkdir|rename|unlink|rmdir|chmod|fchmod|ftruncate|fallocate|fsync|fdatasync|pwrite64|flock)|O_CREAT/;

type Fault = 'ENOSPC' | 'EIO' | 'EACCES' | 'crash';

interface Injection {
  readonly thread: 'main' | 'worker';
  readonly call: TracedCall;
  readonly fault: Fault;
}

/** One thing to do to a prepared domain. */
interface Operation {
  readonly name: string;
  readonly prepare: () => Promise<Scenario>;
  /** Before strace is attached. */
  readonly begin?: (worker: StoreProcess, scenario: Scenario) => Promise<void>;
  readonly run: (worker: StoreProcess, scenario: Scenario) => Promise<unknown>;
  /** Before the key is built again: what another process finds wrong when it does the work again. */
  readonly again?: (checker: StoreProcess, scenario: Scenario) => Promise<string[]>;
  /** Before the result is looked at, where the preparation is in the way. */
  readonly settle?: (scenario: Scenario) => void;
  /** Labels that were valid before and must be afterwards, whatever happens. */
  readonly keeps: readonly string[];
  /** Labels that must be valid afterwards unless the fault was EACCES, which says that an artifact is malformed. */
  readonly keepsUnlessDenied?: readonly string[];
}

const prepared = (): ReturnType<typeof store> => store().artifact('other', content);

const operations: readonly Operation[] = [
  {
    name: 'publication after a dead build',
    prepare: () => prepared().artifact('a', content).quarantined('cleanup').deadBuild('a').made(),
    run: (worker) => worker.build({ label: 'a', ...content }).result,
    keeps: ['other'],
  },
  {
    name: 'rebuild of a denied artifact',
    prepare: () => prepared().artifact('a', content).corrupted().denied().made(),
    run: (worker) => worker.build({ label: 'a', ...content }).result,
    keeps: ['other'],
  },
  {
    name: 'rebuild after an interrupted publication, over a half-moved entry',
    prepare: async () => {
      const scenario = await prepared().artifact('a', content).quarantined().artifact('a', content).made();
      chmodSync(scenario.path('quarantine', scenario.names('quarantine')[0] as string), 0o1755);
      chmodSync(scenario.artifactPath('a'), 0o1755);
      return scenario;
    },
    run: (worker) => worker.build({ label: 'a', ...content }).result,
    keeps: ['other'],
  },
  {
    name: 'a hit',
    prepare: () => prepared().artifact('a', content).made(),
    run: (worker) => worker.build({ label: 'a', ...content, validation: 'full_checksum' }).result,
    keeps: ['other'],
    keepsUnlessDenied: ['a'],
  },
  {
    name: 'denial of an invalid artifact',
    prepare: () => withTruncatedPayload(prepared().artifact('a', content).made()),
    run: (worker) => worker.lookup({ label: 'a', deadlineMs: 1000 }),
    keeps: ['other'],
  },
  {
    name: 'containment of an invalid artifact that cannot be denied',
    prepare: async () => {
      const scenario = await withTruncatedPayload(prepared().artifact('a', content).made());
      chmodSync(scenario.path('deny'), 0o500);
      return scenario;
    },
    run: (worker) => worker.lookup({ label: 'a', deadlineMs: 1000 }),
    settle: (scenario) => chmodSync(scenario.path('deny'), 0o700),
    keeps: ['other'],
  },
  {
    name: 'a collision with other content',
    prepare: () => prepared().made(),
    begin: (worker, scenario) => overtake(worker, scenario, 8),
    run: (worker) => overtaken(worker),
    keeps: ['other'],
    keepsUnlessDenied: ['a'],
  },
  {
    name: 'publication of what is there already',
    prepare: () => prepared().made(),
    begin: (worker, scenario) => overtake(worker, scenario, content.seed),
    run: (worker) => overtaken(worker),
    keeps: ['other'],
    keepsUnlessDenied: ['a'],
  },
  {
    name: 'cleanup',
    prepare: () => prepared().artifact('a', content).withTombstone().denied().made(),
    run: (worker) => worker.do('cleanup', { label: 'a' }),
    keeps: ['other'],
  },
  {
    name: 'cleanup of a quarantined entry',
    prepare: () =>
      prepared().artifact('a', content).quarantined().artifact('a', content).withTombstone().made(),
    run: (worker, scenario) => {
      const name = scenario.names('quarantine').find((entry) => !entry.includes('.cleanup.')) as string;
      return worker.do('cleanupQuarantined', { name });
    },
    keeps: ['other', 'a'],
  },
  {
    name: 'a cleanup plan, applied',
    prepare: () =>
      prepared()
        .artifact('c', content)
        .artifact('a', content)
        .quarantined()
        .artifact('a', content)
        .withTombstone()
        .denied()
        .deadBuild('a')
        .made(),
    begin: async (worker, scenario) => {
      plans.set(worker, await planned(worker, scenario));
    },
    run: (worker) => worker.do('applyCleanup', { plan: plans.get(worker) as CleanupPlan }),
    again: async (checker, scenario) => {
      const report = await checker.do('applyCleanup', { plan: await planned(checker, scenario) });
      if ('code' in report) return [`the second run was refused: ${report.message}`];
      const left = (['tmp', 'quarantine', 'deny'] as const).flatMap((place) =>
        scenario.names(place).map((name) => `${place}/${name}`),
      );
      const others = scenario.names('artifacts').filter((key) => key !== scenario.key('other'));
      return [...left, ...others.map((key) => `artifacts/${key}`)].map(
        (path) => `${path} is there after the second run`,
      );
    },
    keeps: ['other'],
  },
  {
    name: 'restoring a quarantined entry',
    prepare: async () => {
      const scenario = await prepared().artifact('a', content).denied().quarantined().made();
      chmodSync(scenario.path('quarantine', scenario.names('quarantine')[0] as string), 0o1755);
      return scenario;
    },
    run: (worker, scenario) => worker.do('restore', { name: scenario.names('quarantine')[0] as string }),
    again: async (checker, scenario) => {
      const [name] = scenario.names('quarantine');
      const isThere = scenario.names('artifacts').includes(scenario.key('a'));
      // It is in one place or the other, and whatever the fault was, the same can be done again.
      if (name === undefined) return isThere ? [] : ['the entry is in neither place'];
      if (isThere) return ['the entry is in both places'];
      const restored = await checker.do('restore', { name });
      return 'code' in restored ? [`it could not be restored afterwards: ${restored.message}`] : [];
    },
    keeps: ['other'],
  },
];

const plans = new WeakMap<StoreProcess, CleanupPlan>();

/** What nobody can use, what is denied, and one artifact that is well. */
async function planned(process: StoreProcess, scenario: Scenario): Promise<CleanupPlan> {
  const chosen = [`artifacts/${scenario.key('c')}`];
  const plan = await process.do('planCleanup', { groups: [...defaultGroups, 'denied'], chosen });
  if ('code' in plan) throw new Error(plan.message);
  return plan;
}

async function withTruncatedPayload(made: Promise<Scenario>): Promise<Scenario> {
  const scenario = await made;
  const payload = scenario.artifactPath('a', 'weights.safetensors');
  chmodSync(payload, 0o600);
  truncateSync(payload, 100);
  chmodSync(payload, 0o444);
  return scenario;
}

/** The running builds of `overtake`, by the process that they run in. */
const paused = new WeakMap<StoreProcess, { result: Promise<ResultReport>; go: () => Promise<void> }>();

/** The producer is through; now somebody who does not know our locks puts an artifact there. */
async function overtake(worker: StoreProcess, scenario: Scenario, seed: number): Promise<void> {
  const build = worker.build({ label: 'a', ...content, pause: 'end' });
  await build.inside;
  paused.set(worker, build);
  const elsewhere = await store()
    .artifact('a', { ...content, seed })
    .made();
  copyFolder(elsewhere.artifactPath('a'), scenario.artifactPath('a'));
  if (isRoot) giveTo(nobody, scenario.artifactPath('a'));
  removeFolder(elsewhere.root);
}

async function overtaken(worker: StoreProcess): Promise<ResultReport> {
  const build = paused.get(worker);
  if (build === undefined) throw new Error('no build is paused');
  await build.go();
  return await build.result;
}

/** The faulty process and the one that looks afterwards, reused for as long as nothing kills the first. */
class Lane {
  readonly #tracer = new Tracer();
  #worker: StoreProcess | null = null;
  #checker: StoreProcess | null = null;

  async worker(): Promise<StoreProcess> {
    this.#worker ??= await this.#start();
    return this.#worker;
  }

  async checker(): Promise<StoreProcess> {
    this.#checker ??= await this.#start();
    return this.#checker;
  }

  forgetWorker(): void {
    this.#worker = null;
  }

  attach(pid: number, options: Parameters<Tracer['attach']>[1]): ReturnType<Tracer['attach']> {
    return this.#tracer.attach(pid, options);
  }

  /** One worker thread, so that its calls have the same numbers every time; it must be running already. */
  async #start(): Promise<StoreProcess> {
    const process = await startProcess({
      environment: { UV_THREADPOOL_SIZE: '1' },
      ...(isRoot ? { uid: nobody } : {}),
    });
    const folder = temporaryFolder('disk', isRoot ? nobody : undefined);
    await process.do('create', { root: join(folder, 'warm') });
    await process.do('inventory', {});
    return process;
  }
}

function threadOf(worker: StoreProcess, thread: Injection['thread']): number {
  return thread === 'main' ? worker.pid : (threadsNamed(worker.pid, 'libuv-worker')[0] as number);
}

/**
 * Calls between the operation's own: the C library and the runtime open a file of theirs now and then, and it
 * takes a number too. Such a run is no measure and is repeated in a fresh copy. An operation's own calls are those
 * below the root, on the way to it, and on the table of mounts.
 */
function strangersIn(traced: readonly TracedCall[], { root }: Scenario): readonly TracedCall[] {
  const isOnTheWay = (path: string): boolean => path.startsWith('/') && `${root}/`.startsWith(`${path}/`);
  return traced.filter(
    ({ text }) =>
      !text.includes(root) &&
      !text.includes('/mountinfo') &&
      !text.split('"').some((part, index) => index % 2 === 1 && isOnTheWay(part)),
  );
}

async function repeatedly<T>(
  copy: () => Scenario,
  attempt: (scenario: Scenario) => Promise<T | null>,
): Promise<T> {
  for (let tries = 0; tries < 5; tries += 1) {
    const scenario = copy();
    const result = await attempt(scenario);
    removeFolder(scenario.root);
    if (result !== null) return result;
  }
  throw new Error('five runs in a row had calls between that are not below the root');
}

/** What one undisturbed run does below the root; null where something else came between. */
async function callsOf(operation: Operation, lane: Lane, scenario: Scenario): Promise<Injection[] | null> {
  const worker = await lane.worker();
  await worker.do('open', { root: scenario.root });
  await operation.begin?.(worker, scenario);
  const trace = await lane.attach(worker.pid, { calls });
  await operation.run(worker, scenario);
  const traced = await trace.end();
  const strangers = strangersIn(traced, scenario);
  for (const { text } of strangers) console.log(`${operation.name}: a run is repeated because of ${text}`);
  if (strangers.length > 0) return null;
  expect(new Set(traced.map(({ thread }) => thread)).size).toBeLessThanOrEqual(2);
  return traced.flatMap((call) => {
    const thread = call.thread === worker.pid ? 'main' : 'worker';
    const faults: readonly Fault[] = changing.test(call.text)
      ? ['ENOSPC', 'EIO', 'EACCES', 'crash']
      : ['EIO', 'EACCES'];
    return faults.map((fault) => ({ thread, call, fault }) as const);
  });
}

function expressionOf({ call, fault }: Injection): string {
  const what = fault === 'crash' ? 'signal=SIGKILL' : `error=${fault}`;
  return `${call.name}:${what}:when=${call.ordinal}`;
}

/** What is wrong after one fault; empty where all is well, null where the fault met another call. */
async function faultsOf(
  operation: Operation,
  lane: Lane,
  scenario: Scenario,
  injection: Injection,
): Promise<string[] | null> {
  const problems: string[] = [];
  const worker = await lane.worker();
  await worker.do('open', { root: scenario.root });
  await operation.begin?.(worker, scenario);
  const trace = await lane.attach(worker.pid, {
    calls: [injection.call.name],
    inject: expressionOf(injection),
    thread: threadOf(worker, injection.thread),
  });
  let report: unknown = null;
  let died = false;
  try {
    report = await operation.run(worker, scenario);
  } catch (error) {
    if (!(error instanceof ProcessEnded)) problems.push(`exception: ${(error as Error).message}`);
    else {
      if (injection.fault !== 'crash') problems.push('the process ended');
      died = true;
      await worker.ended;
      lane.forgetWorker();
    }
  }
  const traced = await trace.end();
  operation.settle?.(scenario);
  const injected = traced.findIndex(({ text }) => text.includes('(INJECTED)'));
  const until = injected < 0 ? traced : traced.slice(0, injected + 1);
  if (strangersIn(until, scenario).length > 0) return null;
  if (injection.fault === 'crash' ? !died : injected < 0) {
    problems.push(`the fault was not reached; these were:\n${traced.map(({ text }) => text).join('\n')}`);
  }

  const checker = await lane.checker();
  await checker.do('open', { root: scenario.root });
  const held = (await checker.do('locks', {})).filter(({ state }) => state !== 'free');
  if (held.length > 0) problems.push(`held: ${held.map(({ name }) => name.slice(60)).join(', ')}`);
  problems.push(...(await problemsOf(operation, scenario, checker, injection, report)));
  return problems;
}

async function problemsOf(
  operation: Operation,
  scenario: Scenario,
  checker: StoreProcess,
  { fault }: Injection,
  report: unknown,
): Promise<string[]> {
  const problems: string[] = [];
  const level = async (label: string, validation: 'manifest_and_metadata' | 'full_checksum') =>
    (await checker.do('inspect', { label, validation })).status;
  const full = await level('a', 'full_checksum');
  if ((await level('a', 'manifest_and_metadata')) === 'hit' && full !== 'hit') {
    problems.push(`a looks published and is ${full}`);
  }
  const kept = [...operation.keeps, ...(fault === 'EACCES' ? [] : (operation.keepsUnlessDenied ?? []))];
  for (const label of kept) {
    const status = await level(label, 'full_checksum');
    if (status !== 'hit') problems.push(`${label} was published and is ${status}`);
  }
  if (isResult(report) && ['built', 'hit', 'joined'].includes(report.status) && full !== 'hit') {
    problems.push(`the build ended as ${report.status} and a is ${full}`);
  }
  // What could not be made durable must not become a hit later.
  const uncertain = isResult(report) && report.failure?.code === 'publication_failed';
  if (uncertain && full === 'hit' && operation.keepsUnlessDenied === undefined) {
    problems.push('the publication failed and a is a hit');
  }
  problems.push(...((await operation.again?.(checker, scenario)) ?? []));
  const retry = await checker.build({ label: 'a', ...content, validation: 'full_checksum' }).result;
  if (!['built', 'hit'].includes(retry.status)) {
    problems.push(`the retry was ${retry.status}: ${retry.failure?.message ?? ''}`);
  }
  // Where somebody else's artifact came first, a retry is a hit and has no reason to look for leftovers.
  if (scenario.names('tmp').length > 0 && (retry.status === 'built' || fault !== 'crash')) {
    problems.push('tmp is not empty after the retry');
  }
  for (const name of scenario.names('quarantine')) {
    const mode = lstatSync(scenario.path('quarantine', name)).mode & 0o7777;
    if (retry.status === 'built' && mode !== 0o555) {
      problems.push(`quarantine/${name.slice(65)} has mode ${mode.toString(8)} after the retry`);
    }
  }
  return problems;
}

function isResult(report: unknown): report is ResultReport {
  return typeof report === 'object' && report !== null && 'phases' in report;
}

describe.skipIf(straceProblem !== null)('a fault at every call', () => {
  test.each(operations)('$name', async (operation) => {
    const template = await operation.prepare();
    const folder = temporaryFolder('disk', isRoot ? nobody : undefined);
    if (isRoot) giveTo(nobody, template.root);
    let copies = 0;
    const copy = (): Scenario => {
      copies += 1;
      return copyOfDomain(template, join(folder, String(copies)));
    };

    const first = new Lane();
    const injections = await repeatedly(copy, (scenario) => callsOf(operation, first, scenario));
    const failures: string[] = [];
    let next = 0;
    let done = 0;
    const work = async (lane: Lane): Promise<void> => {
      while (next < injections.length) {
        const injection = injections[next] as Injection;
        next += 1;
        const attempt = (scenario: Scenario) => faultsOf(operation, lane, scenario, injection);
        for (const problem of await repeatedly(copy, attempt)) {
          const { call, fault, thread } = injection;
          failures.push(
            `${fault} at ${thread} ${call.ordinal}. ${call.text.replaceAll(folder, '')}: ${problem}`,
          );
        }
        done += 1;
      }
    };
    await Promise.all([work(first), work(new Lane()), work(new Lane())]);
    console.log(
      `${operation.name}: ${done} faults at ${new Set(injections.map(({ call }) => call)).size} calls`,
    );
    expect(failures).toEqual([]);
    expect(done).toBe(injections.length);
    // A trace that came out empty would let everything pass.
    expect(done).toBeGreaterThan(50);
  });
});
