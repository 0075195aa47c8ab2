/**
 * The registrations that this program runs and ran, by id, and those of other programs of this user that live now.
 * They outlive their pages and end with the program.
 */
import type { z } from 'zod';
import { failure, FailureError } from '../contract/failure.ts';
import type {
  Diagnosis,
  diagnosisRequest,
  Registration,
  RegistrationEvent,
  registrationRequest,
} from '../contract/gpu-schemas.ts';
import type { SessionEvent } from '../registration/registration-session.ts';
import { processOf, type RunRecord } from '../registration/run-record.ts';
import { DeskRegistration, nothingYet } from './desk-registration.ts';
import { diagnoseProcess, diagnoseSession, sessionEvidence, type DiagnosedSession } from './diagnosing.ts';
import type { EventStream } from './event-stream.ts';
import type { GpuRegistry } from './gpu-registry.ts';
import { valueOf } from './outcomes.ts';
import { startRegistration } from './registering.ts';
import { Topic } from './topic.ts';

/** Ended ones beyond this are dropped, the oldest first. */
const mostEnded = 100;

export class DeskRegistrations {
  /** One started, changed its state, was diagnosed or ended. */
  readonly changed = new Topic<Registration>();
  readonly #gpus: GpuRegistry;
  readonly #now: () => number;
  readonly #onBug: (error: unknown) => void;
  readonly #registrations = new Map<string, DeskRegistration>();

  constructor(gpus: GpuRegistry, { now, onBug }: { now: () => number; onBug: (error: unknown) => void }) {
    this.#gpus = gpus;
    this.#now = now;
    this.#onBug = onBug;
  }

  /** Throws FailureError for a GPU that is not known, or on which a process is stuck. */
  async start(request: z.output<typeof registrationRequest>): Promise<{ id: string }> {
    const { root, key, chunkBytes, parallel, stallAfterMs } = request;
    const gpu = valueOf(await this.#gpus.find(request.gpu));
    const { simulated } = await this.#gpus.remembered();
    let registration: DeskRegistration | null = null;
    // A session tells its first state before it is there to be named.
    const early: SessionEvent[] = [];
    const onEvent = (event: SessionEvent): void => {
      if (registration === null) early.push(event);
      else registration.take(event);
    };
    const started = valueOf(
      startRegistration(this.#gpus, { root, key, gpu, chunkBytes, parallel }, { stallAfterMs, onEvent }),
    );
    const id = started.kind === 'staging' ? started.id : started.session.view.id;
    registration = new DeskRegistration(id, {
      ...{ root, key, gpu, simulated },
      now: this.#now,
      diagnose: async (view) => {
        if (view.reason?.kind === 'platform_forbids') await this.#gpus.forbid(gpu.uuid);
        return (await diagnoseSession(this.#gpus, id, view)).findings;
      },
    });
    registration.changed.subscribe((state) => {
      if (state.state === 'staging' && state.reason?.kind === 'platform_forbids')
        void this.#gpus.forbid(gpu.uuid).catch(this.#onBug);
      this.changed.publish(state);
    });
    this.#registrations.set(id, registration);
    if (started.kind === 'staging') registration.stage(started.reason);
    else registration.run(started.session);
    for (const event of early) registration.take(event);
    this.#dropOldest();
    return { id };
  }

  list(): Registration[] {
    const own = [...this.#registrations.values()].map(({ state }) => state).reverse();
    const elsewhere = this.#gpus.runs
      .live()
      .filter(({ head }) => head.kind === 'registration' && !this.#registrations.has(head.session));
    return [...own, ...elsewhere.map(foreign)];
  }

  /** Throws FailureError for an id that is not known here, as the others do. */
  watch(id: string, signal: AbortSignal | undefined): EventStream<RegistrationEvent> {
    return this.#get(id).watch(signal);
  }

  async end(
    id: string,
    { force, disable }: { force: boolean; disable: boolean },
  ): Promise<{ gone: boolean }> {
    const registration = this.#get(id);
    if (disable) await this.#gpus.setMode(registration.state.gpu, { mode: 'disabled' });
    return { gone: await registration.end(force) };
  }

  async diagnose({ id, pid }: z.output<typeof diagnosisRequest>): Promise<Diagnosis> {
    const found = id === undefined ? await diagnoseProcess(this.#gpus, pid ?? 0) : await this.session(id);
    if (id === undefined && found.full.process === null) throw unknown(`There is no process ${pid}.`);
    const { findings, evidence } = found;
    return { findings, evidence };
  }

  async session(id: string): Promise<DiagnosedSession> {
    const found = await diagnoseSession(this.#gpus, id);
    if (found.record === null) throw unknown('There is no such registration on record.');
    return found;
  }

  async close(): Promise<void> {
    await Promise.all(
      [...this.#registrations.values()].map(async (registration) => await registration.close()),
    );
  }

  #get(id: string): DeskRegistration {
    const registration = this.#registrations.get(id);
    if (registration !== undefined) return registration;
    throw unknown('This registration is not one of this program, or the program was started anew since.');
  }

  #dropOldest(): void {
    const ended = [...this.#registrations.values()].filter(({ state }) => state.gone);
    for (const { state } of ended.slice(0, -mostEnded)) this.#registrations.delete(state.id);
  }
}

function unknown(message: string): FailureError {
  return new FailureError(failure('configuration', 'invalid_config', message));
}

/** One of another program, as far as its record tells. */
function foreign(record: RunRecord): Registration {
  const { session: id, root, key, gpus, gpuName, atMs } = record.head;
  const { state, registeredBytes } = sessionEvidence(record, null, true);
  const plan = record.events.findLast((event) => event.event === 'plan');
  const driver = record.events.findLast((event) => event.event === 'driver');
  const entered = record.events.findLast((event) => event.event === 'entering');
  const calls = record.events.filter((event) => event.event === 'returned' && event.code === 0);
  const signs = calls.map((event) => (event.event === 'returned' && event.call === 'register' ? 1 : -1));
  return {
    ...nothingYet,
    id,
    root: root ?? '',
    key: key ?? '',
    gpu: gpus[0] ?? '',
    gpuName: gpuName ?? '',
    simulated: driver?.simulated ?? false,
    state: state as Registration['state'],
    pid: processOf(record)?.pid ?? null,
    startedAtMs: atMs,
    regions: plan?.regions ?? null,
    chunks: plan?.chunks ?? null,
    bytes: plan?.bytes ?? null,
    registeredChunks: signs.reduce<number>((total, sign) => total + sign, 0),
    registeredBytes,
    lastEntered: entered === undefined ? null : enteredCall(record, entered),
  };
}

function enteredCall(
  { events }: RunRecord,
  entered: Extract<RunRecord['events'][number], { event: 'entering' }>,
): NonNullable<Registration['lastEntered']> {
  const { call, file, region, regions, chunk, chunks, bytes, atMs: enteredAtMs } = entered;
  const after = events[events.indexOf(entered) + 1];
  const back = after?.event === 'returned' ? after : null;
  const answer = { seconds: back?.seconds ?? null, code: back?.code ?? null };
  return { call, file, region, regions, chunk, chunks, bytes, enteredAtMs, ...answer };
}
