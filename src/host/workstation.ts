/**
 * The composition root: settings, known stores, builds and activity, joined into what the desk can do. The
 * desktop app and the browser host each have one, and reach it only through the contract's router.
 *
 * It owns everything that it starts: closing it cancels its builds, stops its watchers and leaves no process.
 */
import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import type { z } from 'zod';
import type { AppEvent, AppStatus, Settings, settingsChange } from '../contract/app-schemas.ts';
import type {
  Artifact,
  Verification,
  VerificationEvent,
  verifyRequest,
} from '../contract/artifact-schemas.ts';
import type { Build, BuildList, buildRequest, CheckpointInspection } from '../contract/build-schemas.ts';
import type { DomainChange, DomainLocks } from '../contract/domain-schemas.ts';
import { succeeded } from '../contract/failure.ts';
import type { registrationRequest, Worker } from '../contract/gpu-schemas.ts';
import type { Store, StoreCheck, StorePlan } from '../contract/store-schemas.ts';
import type { Removal } from '../store/cleanup.ts';
import { History } from '../catalog/history.ts';
import { ActivityLog } from './activity-log.ts';
import { buildEnded, buildStarted } from './build-words.ts';
import { bundleDiagnosis } from './bundling.ts';
import { callError } from './call-errors.ts';
import { inspectForBuild } from './checkpoint-inspection.ts';
import { defaultPaths, homeOf, type DefaultPaths, type Environment } from './default-paths.ts';
import { DeskBuilds } from './desk-builds.ts';
import { DeskRegistrations } from './desk-registrations.ts';
import { followLog, listWorkers } from './desk-workers.ts';
import { DeskCleaning } from './desk-cleaning.ts';
import { EventStream } from './event-stream.ts';
import { GpuRegistry } from './gpu-registry.ts';
import { withBuilds } from './held-locks.ts';
import type { KnownStore } from './known-store.ts';
import { KnownStores } from './known-stores.ts';
import { defaultSampleBytes, prepareSample } from './sample.ts';
import { SettingsFile } from './settings-file.ts';
import { checkStorePlan } from './store-form.ts';
import { createStore, openStore, serializedNotice } from './stores.ts';
import { valueOf } from './outcomes.ts';
import { absolutePath } from './user-path.ts';

export interface WorkstationOptions {
  readonly env: Environment;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** How often stores are compared with what was last seen, below the kernel's own notices. Default 2000. */
  readonly pollMs?: number;
  /** How long a store may say nothing before it counts as hanging. Default 30,000. */
  readonly answerMs?: number;
  /** Of the sample's checkpoint. */
  readonly sampleBytes?: number;
}

export class Workstation {
  readonly env: Environment;
  readonly paths: DefaultPaths;
  readonly settings: SettingsFile;
  readonly activity: ActivityLog;
  readonly stores: KnownStores;
  readonly builds = new DeskBuilds();
  readonly gpus: GpuRegistry;
  readonly registrations: DeskRegistrations;
  readonly cleaning: DeskCleaning;
  readonly now: () => number;
  /** Opened when there is something to write; what is read from it, the processes of the stores read. */
  #history: Promise<History> | null = null;
  #remembering: Promise<void> = Promise.resolve();
  readonly #sampleBytes: number;
  readonly #startedAtMs: number;
  readonly #problems: AppStatus['problems'][number][] = [];
  readonly #buildOf = (pid: number): string | null => this.builds.ofProcess(pid);

  private constructor({
    env,
    now = Date.now,
    pollMs = 2000,
    answerMs = 30_000,
    sampleBytes = defaultSampleBytes,
  }: WorkstationOptions) {
    this.env = env;
    this.now = now;
    this.paths = defaultPaths(env);
    this.#sampleBytes = sampleBytes;
    this.#startedAtMs = now();
    this.activity = new ActivityLog(join(this.paths.state, 'activity.jsonl'), now);
    this.settings = new SettingsFile(join(this.paths.config, 'settings.json'), {
      onProblem: (message) => this.reportProblem('settings', message),
    });
    this.stores = new KnownStores(this.settings, {
      now,
      pollMs,
      answerMs,
      files: this.paths,
      onBug: this.reportBug,
      onNotice: (message) => this.#notice(message),
    });
    this.gpus = new GpuRegistry({ settings: this.settings, paths: this.paths });
    this.registrations = new DeskRegistrations(this.gpus, { now, onBug: this.reportBug });
    this.cleaning = new DeskCleaning({ activity: this.activity, onBug: this.reportBug });
    this.builds.ended.subscribe((build) => {
      this.activity.add(buildEnded(build));
      this.#remembering = this.#remembering.then(() => this.#remember(build)).catch(this.reportBug);
      this.#known(build.root)?.touch();
    });
  }

  static async open(options: WorkstationOptions): Promise<Workstation> {
    const workstation = new Workstation(options);
    await workstation.activity.open();
    await workstation.settings.open();
    workstation.stores.prepare();
    return workstation;
  }

  async close(): Promise<void> {
    await Promise.all([this.builds.close(), this.registrations.close()]);
    await this.stores.close();
    await this.#remembering;
    (await this.#history)?.close();
    this.settings.close();
    await this.activity.close();
  }

  status(transport: AppStatus['transport']): AppStatus {
    const { config, state, cache, data } = this.paths;
    return {
      version,
      pid: process.pid,
      startedAtMs: this.#startedAtMs,
      transport,
      nodeVersion: process.versions.node,
      hostName: hostname(),
      userName: userInfo().username,
      homeFolder: homeOf(this.env),
      folders: { config, state, cache, data },
      problems: this.#problems,
    };
  }

  events(signal: AbortSignal | undefined): EventStream<AppEvent> {
    const releases = [
      this.stores.watchAll(() => {
        stream.push({ type: 'stores' }, 'stores');
        // A build of another process shows in its store alone.
        stream.push({ type: 'builds' }, 'builds');
      }),
      this.builds.changed.subscribe(() => stream.push({ type: 'builds' }, 'builds')),
      this.registrations.changed.subscribe(() => stream.push({ type: 'registrations' }, 'registrations')),
      this.activity.added.subscribe((entry) => stream.push({ type: 'activity', entry })),
      this.settings.changed.subscribe((settings) => stream.push({ type: 'settings', settings }, 'settings')),
    ];
    const stream = new EventStream<AppEvent>({
      signal,
      onClose: () => {
        for (const release of releases) release();
      },
    });
    stream.push({ type: 'subscribed' });
    return stream.start();
  }

  async listStores(): Promise<Store[]> {
    return await Promise.all(this.stores.all().map(async (store) => await store.summary()));
  }

  async openStore(typed: string): Promise<Store> {
    const store = await this.stores.open(this.#absolute(typed));
    const { root } = store;
    this.activity.add({ kind: 'store-opened', message: `Opened the store ${root}.`, root });
    return await store.summary();
  }

  async forgetStore(root: string): Promise<void> {
    if (!(await this.stores.forget(root))) return;
    const message = `${root} is no longer on the list of stores. Nothing on disk was changed.`;
    this.activity.add({ kind: 'store-forgotten', message, root });
  }

  async checkStore(plan: StorePlan): Promise<StoreCheck> {
    return await checkStorePlan(plan, this.env);
  }

  async createStore(plan: StorePlan): Promise<{ store: Store; existing: boolean; notice: string | null }> {
    const { path, admission, maxStoreBytes, maxArtifactBytes, minFreeBytes } = plan;
    const capacity = { maxStoreBytes, maxArtifactBytes, minFreeBytes };
    const request = { root: this.#absolute(path), admission, capacity };
    const { domain, existing } = valueOf(await createStore(request, this.env));
    const store = await this.stores.remember(domain.root);
    const message = existing ? `Opened the store ${domain.root}.` : `Made the store ${domain.root}.`;
    this.activity.add({ kind: existing ? 'store-opened' : 'store-created', message, root: domain.root });
    const notice = domain.admission === 'serialized' ? serializedNotice : null;
    return { store: await store.summary(), existing, notice };
  }

  async locks(store: KnownStore): Promise<DomainLocks> {
    const { root } = store;
    const locks = await store.ask(async ({ domain }) => await domain.locks({ root }));
    return { ...locks, held: withBuilds(locks.held, this.#buildOf) };
  }

  watchStore(store: KnownStore, signal: AbortSignal | undefined): EventStream<DomainChange> {
    const release = store.watch((change) => stream.push(change, 'change'));
    const stream = new EventStream<DomainChange>({ signal, onClose: release });
    void store.state().then(
      (state) => stream.push(state, 'change'),
      (error: unknown) => stream.fail(callError(error, this.reportBug)),
    );
    return stream.start();
  }

  async removeArtifact(store: KnownStore, key: string): Promise<Removal> {
    const { root } = store;
    const removal = await store.ask(async ({ artifact }) => await artifact.remove({ root, key }));
    if (removal.removed) {
      const message = `Removed artifact ${key.slice(0, 12)}.`;
      this.activity.add({ kind: 'artifact-removed', message, root: store.root, key });
    }
    return removal;
  }

  async showArtifact(store: KnownStore, key: string): Promise<Artifact> {
    const { root } = store;
    const shown = await store.ask(async ({ artifact }) => await artifact.show({ root, key }));
    return { ...shown, locks: withBuilds(shown.locks, this.#buildOf) };
  }

  /** Belongs to whoever asked for it, and stops when they leave. */
  verify(
    store: KnownStore,
    request: z.output<typeof verifyRequest>,
    signal: AbortSignal | undefined,
  ): EventStream<VerificationEvent> {
    const leaving = new AbortController();
    const stream = new EventStream<VerificationEvent>({ signal, onClose: () => leaving.abort() });
    void this.#verifyInto(stream, store, request, leaving.signal).catch((error: unknown) =>
      stream.fail(callError(error, this.reportBug)),
    );
    return stream.start();
  }

  async #verifyInto(
    stream: EventStream<VerificationEvent>,
    store: KnownStore,
    request: z.output<typeof verifyRequest>,
    leaving: AbortSignal,
  ): Promise<void> {
    const { lost } = store;
    const signal = AbortSignal.any([leaving, lost]);
    try {
      for await (const event of await store.ask(
        async ({ artifact }) => await artifact.verify(request, { signal }),
      )) {
        if (event.type === 'result') this.#noteVerification(store, event.result);
        stream.push(event, event.type === 'progress' ? 'progress' : null);
      }
    } catch (error) {
      throw lost.aborted ? lost.reason : error;
    }
    if (lost.aborted) throw lost.reason;
    stream.end();
  }

  #noteVerification(store: KnownStore, result: Verification): void {
    const { key, status, failure } = result;
    const short = key.slice(0, 12);
    const message =
      status === 'valid'
        ? `Artifact ${short} passed its check.`
        : `Artifact ${short}: ${failure?.message ?? status}`;
    const severity = status === 'valid' ? 'information' : 'failure';
    this.activity.add({ kind: 'artifact-verified', severity, message, root: store.root, key, failure });
  }

  async inspect(
    checkpoint: string,
    root: string | null,
    signal: AbortSignal | undefined,
  ): Promise<CheckpointInspection> {
    const domain = root === null ? null : valueOf(await openStore(this.stores.get(root).root));
    return await inspectForBuild(this.#absolute(checkpoint), domain, signal);
  }

  async startBuild(request: z.output<typeof buildRequest>): Promise<{ id: string }> {
    const { root, representation, component, modelId, revision, validation } = request;
    const domain = valueOf(await openStore(this.stores.get(root).root));
    const checkpoint = this.#absolute(request.checkpoint);
    const build = { checkpoint, representation, component, modelId, revision, validation };
    const started = this.builds.start(
      { kind: 'build', root: domain.root, checkpoint, representation, component, modelId, revision },
      {
        now: this.now,
        firstPhase: 'starting',
        prepare: async () => succeeded({ domain, request: build }),
      },
    );
    this.activity.add(buildStarted(started));
    return { id: started.id };
  }

  startSample(): { id: string } {
    const nothing = { checkpoint: null, component: null, modelId: null, revision: null };
    const started = this.builds.start(
      { kind: 'sample', root: this.paths.store, representation: 'bf16', ...nothing },
      {
        now: this.now,
        firstPhase: 'making-sample',
        prepare: async (signal) => {
          const prepared = await prepareSample(this.env, this.#sampleBytes, signal);
          if (!prepared.ok) return prepared;
          const { store, request } = prepared.value;
          await this.stores.remember(store.domain.root);
          return succeeded({ domain: store.domain, request });
        },
      },
    );
    this.activity.add(buildStarted(started));
    return { id: started.id };
  }

  async listBuilds(): Promise<BuildList> {
    const elsewhere = await Promise.all(this.stores.all().map(async (store) => await store.builders()));
    return {
      builds: this.builds.list(),
      elsewhere: elsewhere.flat().filter(({ pid }) => this.#buildOf(pid) === null),
    };
  }

  async startRegistration(request: z.output<typeof registrationRequest>): Promise<{ id: string }> {
    const { root } = this.stores.get(request.root);
    return await this.registrations.start({ ...request, root });
  }

  async bundle(id: string, typed: string): Promise<void> {
    const found = await this.registrations.session(id);
    const { flags } = this.gpus.flags(found.record?.head.gpus ?? []);
    await bundleDiagnosis(this.#absolute(typed), found, { env: this.env, flags });
  }

  async listWorkers(): Promise<Worker[]> {
    return await listWorkers(this.settings.current.stores, this.gpus.runs, homeOf(this.env));
  }

  followLog(typed: string, signal: AbortSignal | undefined): ReturnType<typeof followLog> {
    return followLog(this.#absolute(typed), signal, this.reportBug);
  }

  async updateSettings(change: z.output<typeof settingsChange>): Promise<Settings> {
    const { theme, cudaLibrary } = change;
    return await this.settings.update((settings) => ({
      ...settings,
      ...(theme === undefined ? {} : { theme }),
      ...(cudaLibrary === undefined ? {} : { cudaLibrary }),
    }));
  }

  /** Not a failure of anybody's but of this program: kept where a person can find and report it. */
  readonly reportBug = (error: unknown): void => {
    const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
    const cause = error instanceof Error && error.cause instanceof Error ? `\n${error.cause.message}` : '';
    const message = `A bug in Weightroom: ${words}${cause}`;
    this.activity.add({ kind: 'bug', severity: 'failure', message });
  };

  /** Something is wrong with the program's own surroundings: an alert on every page until the program ends. */
  reportProblem(kind: 'app' | 'settings', message: string): void {
    // The same one again is one that goes on.
    const earlier = this.#problems.findIndex((problem) => problem.message === message);
    if (earlier >= 0) this.#problems.splice(earlier, 1);
    this.#problems.push({ atMs: this.now(), message });
    this.activity.add({ kind, severity: 'warning', message });
  }

  #absolute(typed: string): string {
    return absolutePath(typed, homeOf(this.env));
  }

  #known(root: string): KnownStore | null {
    return this.settings.current.stores.includes(root) ? this.stores.get(root) : null;
  }

  async #remember(build: Build): Promise<void> {
    const { id, root, startedAtMs, endedAtMs, result } = build;
    this.#history ??= History.open(this.paths.history);
    const history = await this.#history;
    if (history.problem !== null) this.#notice(history.problem);
    history.buildEnded({
      id,
      root,
      key: result?.key ?? null,
      status: result?.status ?? 'failed',
      startedMs: startedAtMs,
      endedMs: endedAtMs ?? this.now(),
      document: build,
    });
  }

  /** Of a file that the process of every store uses: told once. */
  #notice(message: string): void {
    if (!this.#problems.some((problem) => problem.message === message)) this.reportProblem('app', message);
  }
}

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  readonly version: string;
};
