/**
 * One registration on the desk: where it stands, its calls so far, and everybody who watches it. It belongs to the
 * program and not to the page that started it. Its calls are made by a process of its own, never here.
 */
import type {
  DiagnosisFinding,
  Gpu,
  Registration,
  RegistrationCall,
  RegistrationEvent,
} from '../contract/gpu-schemas.ts';
import type { Reason } from '../registration/registrar-protocol.ts';
import type {
  LastEntered,
  RegistrationSession,
  SessionEvent,
  SessionView,
} from '../registration/registration-session.ts';
import { EventStream } from './event-stream.ts';
import { Topic } from './topic.ts';

/** Calls beyond this are dropped, the oldest first: the picture of a lane needs no more. */
const mostCalls = 20_000;

export interface DeskRegistrationOptions {
  readonly root: string;
  readonly key: string;
  readonly gpu: Gpu;
  readonly simulated: boolean;
  readonly now: () => number;
  /** Asked for when it has stalled or failed. */
  readonly diagnose: (view: SessionView) => Promise<readonly DiagnosisFinding[]>;
}

export class DeskRegistration {
  readonly changed = new Topic<Registration>();
  readonly #events = new Topic<RegistrationEvent>();
  readonly #options: DeskRegistrationOptions;
  #calls: RegistrationCall[] = [];
  #session: RegistrationSession | null = null;
  #state: Registration;

  constructor(id: string, options: DeskRegistrationOptions) {
    this.#options = options;
    const { root, key, gpu, simulated, now } = options;
    const about = { id, root, key, gpu: gpu.uuid, gpuName: gpu.name, simulated };
    this.#state = { ...nothingYet, ...about, startedAtMs: now() };
  }

  get state(): Registration {
    return this.#state;
  }

  /** There is no process, and there will be none. */
  stage(reason: Reason): void {
    const endedAtMs = this.#options.now();
    this.#change({
      state: 'staging',
      reason: plainReason(reason),
      gone: true,
      endedAtMs,
      leaseReleased: true,
    });
  }

  run(session: RegistrationSession): void {
    this.#session = session;
  }

  take(event: SessionEvent): void {
    switch (event.event) {
      case 'driver':
        return this.#change({ simulated: event.simulated });
      case 'entering': {
        const { file, region, regions, chunk, chunks, bytes, atMs: enteredAtMs } = event;
        const place = { call: event.call, file, region, regions, chunk, chunks, bytes };
        return this.#noteCall({ ...place, enteredAtMs, seconds: null, code: null });
      }
      case 'returned': {
        const entered = this.#calls.pop();
        if (entered !== undefined) this.#noteCall({ ...entered, seconds: event.seconds, code: event.code });
        return;
      }
      case 'view':
        return this.#show(event.view);
      default:
    }
  }

  /** Resolves to whether its process is gone. What is registered is given back in order. */
  async end(force: boolean): Promise<boolean> {
    const session = this.#session;
    if (session === null || this.#state.gone) return true;
    if (this.#state.state !== 'registered') return await session.end({ force });
    session.release();
    const stalled = Promise.withResolvers<void>();
    const unsubscribe = this.changed.subscribe(({ state }) => {
      if (state === 'stalled' || state === 'failed') stalled.resolve();
    });
    await Promise.race([session.gone, stalled.promise]).finally(unsubscribe);
    return this.#state.gone;
  }

  /** With the program: what does not obey is killed by the kernel when the program is gone. */
  async close(): Promise<void> {
    const session = this.#session;
    if (session === null || session.view.gone) return;
    if (!(await session.end())) session.leave();
  }

  watch(signal: AbortSignal | undefined): EventStream<RegistrationEvent> {
    const unsubscribe = this.#events.subscribe((event) => {
      stream.push(event, event.type === 'state' ? 'state' : null);
      if (event.type === 'state' && event.registration.gone) stream.end();
    });
    const stream = new EventStream<RegistrationEvent>({ signal, onClose: unsubscribe });
    stream.push({ type: 'calls', calls: [...this.#calls] });
    stream.push({ type: 'state', registration: this.#state }, 'state');
    if (this.#state.gone) stream.end();
    return stream.start();
  }

  #show(view: SessionView): void {
    const before = this.#state.state;
    const { state, slow, pid, gone, attempt, step, endedAtMs, plan, waiting, lastEntered } = view;
    const { registeredChunks, registeredBytes, reason, leaseReleased, ignoredTermination } = view;
    this.#change({
      ...{ state, slow, pid, gone, attempt, step, endedAtMs, leaseReleased, ignoredTermination },
      ...{ registeredChunks, registeredBytes },
      regions: plan?.regions ?? null,
      chunks: plan?.chunks ?? null,
      bytes: plan?.bytes ?? null,
      waitingFor: waiting === null ? null : { file: waiting.file, holders: [...waiting.holders] },
      lastEntered: lastEntered === null ? null : plainCall(lastEntered),
      reason: reason === null ? null : plainReason(reason),
    });
    if (state !== before && troubled.has(state)) void this.#diagnose(view);
  }

  async #diagnose(view: SessionView): Promise<void> {
    const diagnosis = await this.#options.diagnose(view);
    this.#change({ diagnosis });
  }

  #noteCall(call: RegistrationCall): void {
    this.#calls.push(call);
    if (this.#calls.length > mostCalls) this.#calls = this.#calls.slice(-mostCalls / 2);
    this.#events.publish({ type: 'calls', calls: [call] });
  }

  #change(change: Partial<Registration>): void {
    const before = this.#state;
    this.#state = { ...before, ...change };
    this.#events.publish({ type: 'state', registration: this.#state });
    const { state, gone, diagnosis } = this.#state;
    if (state !== before.state || gone !== before.gone || diagnosis !== before.diagnosis)
      this.changed.publish(this.#state);
  }
}

const troubled: ReadonlySet<string> = new Set(['stalled', 'failed', 'unkillable']);

export function plainReason({
  kind,
  message,
  code,
  name,
  transient,
  details,
}: Reason): Registration['reason'] {
  const copied = JSON.parse(JSON.stringify(details)) as NonNullable<Registration['reason']>['details'];
  return { kind, message, code, name, transient, details: copied };
}

export function plainCall({ atMs, monotonicMs: _, ...call }: LastEntered): RegistrationCall {
  return { ...call, enteredAtMs: atMs };
}

export const nothingYet = {
  state: 'planning',
  slow: false,
  pid: null,
  gone: false,
  attempt: 1,
  step: null,
  endedAtMs: null,
  regions: null,
  chunks: null,
  bytes: null,
  registeredChunks: 0,
  registeredBytes: 0,
  waitingFor: null,
  lastEntered: null,
  reason: null,
  leaseReleased: false,
  ignoredTermination: false,
  diagnosis: [],
} satisfies Partial<Registration>;
