/**
 * One registration as its supervisor sees it: the registrar's process, where it stands, and since when. The state is
 *
 *   planning -> waiting-for-admission -> registering -> registered | staging | failed
 *   any of the first three -> stalled -> back, or on to the others, or abandoned (killed) | unkillable
 *
 * A stall ends nothing by itself: somebody decides. Ending asks first (the end of its pipe and SIGTERM), waits, and
 * kills only where it was told to, because a kill in the middle of a driver call can make things worse.
 * Source: registration specification, section 3.
 */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnChild } from '../store/child-process.ts';
import {
  machineMs,
  reason,
  releaseLine,
  type Place,
  type Reason,
  type RegistrarEvent,
  type RegistrarRequest,
  type Step,
} from './registrar-protocol.ts';
import { isAlive, type RunRecord } from './run-record.ts';

export const sessionStates = [
  'planning',
  'waiting-for-admission',
  'registering',
  'registered',
  'staging',
  'failed',
  'stalled',
  'abandoned',
  'unkillable',
] as const;
export type SessionState = (typeof sessionStates)[number];

export interface LastEntered extends Place {
  readonly call: 'register' | 'unregister';
  readonly atMs: number;
  readonly monotonicMs: number;
  /** Of the call; null while it is out. */
  readonly seconds: number | null;
  readonly code: number | null;
}

export interface SessionView {
  readonly id: string;
  readonly state: SessionState;
  /** The running call takes much longer than this session's own rate lets expect. */
  readonly slow: boolean;
  readonly pid: number | null;
  readonly startTicks: string | null;
  /** The kernel has taken the process away, and its lease with it. */
  readonly gone: boolean;
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
  /** 1, or 2 after the one restart there is. */
  readonly attempt: number;
  readonly step: Step | null;
  readonly plan: Omit<Extract<RegistrarEvent, { event: 'plan' }>, 'event' | 'atMs' | 'monotonicMs'> | null;
  readonly driver: { readonly path: string; readonly simulated: boolean; readonly version: number } | null;
  /** Before which file it waits, and who is inside. */
  readonly waiting: {
    readonly file: string;
    readonly holders: readonly { pid: number; command: string }[];
  } | null;
  readonly lastEntered: LastEntered | null;
  readonly registeredChunks: number;
  readonly registeredBytes: number;
  readonly reason: Reason | null;
  /** Pages could not be given back, or the process is there still. */
  readonly leaseReleased: boolean;
  /** It was asked to end and did not. */
  readonly ignoredTermination: boolean;
}

export type SessionEvent = RegistrarEvent | { readonly event: 'view'; readonly view: SessionView };

export interface SessionOptions {
  /** One of these is never entered again: how long a call may be out before its session counts as stalled. */
  readonly stallAfterMs: number;
  readonly onEvent: (event: SessionEvent) => void;
  /** From asking to go to the question whether to kill. Default 5000. */
  readonly terminateAfterMs?: number;
  /** From SIGKILL to "unkillable". Default 5000. */
  readonly killAfterMs?: number;
  readonly now?: () => number;
  readonly kill?: (child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals) => void;
  readonly start?: (gpu: string) => ChildProcessWithoutNullStreams;
}

/** A chunk is never called slow before this. */
const slowAfterMs = 5000;
const slowFactor = 4;
const maxAttempts = 2;
const entry = fileURLToPath(new URL('./registrar-process.ts', import.meta.url));

/** The child sees the one GPU and no other, so that nothing which holds another GPU up reaches it. */
export function startRegistrar(gpu: string): ChildProcessWithoutNullStreams {
  return spawnChild(entry, [], { env: { CUDA_VISIBLE_DEVICES: gpu, CUDA_DEVICE_ORDER: 'PCI_BUS_ID' } });
}

export class RegistrationSession {
  /** Resolves when it is registered, or over, or stalled. */
  readonly gone: Promise<void>;
  readonly #request: RegistrarRequest;
  readonly #options: SessionOptions;
  readonly #now: () => number;
  readonly #gone = Promise.withResolvers<void>();
  #child: ChildProcessWithoutNullStreams;
  #view: SessionView;
  #slowTimer: NodeJS.Timeout | null = null;
  #stallTimer: NodeJS.Timeout | null = null;
  #beforeStall: SessionState = 'planning';
  #secondsInside = 0;
  #leaseKept = false;
  #ending = false;
  #killed = false;
  #hasResult = false;
  #stderr: string[] = [];

  constructor(request: RegistrarRequest, options: SessionOptions) {
    this.#request = request;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.gone = this.#gone.promise;
    this.#view = {
      ...emptyView,
      id: request.session,
      startedAtMs: this.#now(),
    };
    this.#child = this.#start(request);
  }

  get view(): SessionView {
    return this.#view;
  }

  /** Gives registered pages back in order; else it ends like `end`. */
  release(): void {
    if (this.#view.state === 'registered' && this.#child.stdin.writable)
      this.#child.stdin.write(`${releaseLine}\n`);
    else void this.end();
  }

  /**
   * Asks the registrar to go; with `force` it is killed where it does not. Resolves to whether it is gone: false
   * means that it ignored the request (ask before forcing), or that even the kernel can't end it now.
   */
  async end({ force = false }: { readonly force?: boolean } = {}): Promise<boolean> {
    const { terminateAfterMs = 5000, killAfterMs = 5000, kill = sendSignal } = this.#options;
    if (this.#view.gone) return true;
    this.#ending = true;
    this.#child.stdin.end();
    kill(this.#child, 'SIGTERM');
    if (await this.#goneWithin(terminateAfterMs)) return true;
    this.#change({ ignoredTermination: true });
    if (!force) return false;
    this.#killed = true;
    kill(this.#child, 'SIGKILL');
    if (await this.#goneWithin(killAfterMs)) return true;
    this.#stopTimers();
    this.#change({ state: 'unkillable' });
    return false;
  }

  /** Lets this process end although the registrar is there: nothing more is heard of it. Its pipe ends with us. */
  leave(): void {
    this.#stopTimers();
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) stream.destroy();
  }

  async #goneWithin(milliseconds: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), milliseconds);
    });
    return await Promise.race([this.gone.then(() => true), late]).finally(() => clearTimeout(timer));
  }

  #start(request: RegistrarRequest): ChildProcessWithoutNullStreams {
    const child = (this.#options.start ?? startRegistrar)(request.gpu);
    this.#hasResult = false;
    this.#leaseKept = false;
    this.#stderr = [];
    child.on('error', (error) => {
      if (child.pid === undefined)
        this.#over(reason('crashed', `The registrar could not be started: ${error.message}`));
    });
    if (child.pid === undefined) return child;
    child.stdin.on('error', () => undefined);
    createInterface({ input: child.stdout }).on('line', (line) => this.#read(line));
    createInterface({ input: child.stderr }).on('line', (line) => {
      this.#stderr = [...this.#stderr.slice(-19), line];
    });
    child.on('close', (code, signal) => this.#closed(code, signal));
    child.stdin.write(`${JSON.stringify(request)}\n`);
    this.#change({ pid: child.pid });
    this.#watchCall(0);
    return child;
  }

  #read(line: string): void {
    let event: RegistrarEvent;
    try {
      event = JSON.parse(line) as RegistrarEvent;
    } catch {
      this.#stderr = [...this.#stderr.slice(-19), line];
      return;
    }
    this.#options.onEvent(event);
    this.#take(event);
  }

  #take(event: RegistrarEvent): void {
    switch (event.event) {
      case 'started':
        return this.#change({ startTicks: event.startTicks });
      case 'step':
        this.#watchCall(0);
        return this.#change({ step: event.step });
      case 'plan': {
        const { regions, chunks, bytes, files } = event;
        return this.#change({ plan: { regions, chunks, bytes, files } });
      }
      case 'driver': {
        const { path, simulated, version } = event;
        return this.#change({ driver: { path, simulated, version } });
      }
      case 'waiting':
        this.#stopTimers();
        return this.#change({
          state: 'waiting-for-admission',
          waiting: { file: event.file, holders: event.holders },
        });
      case 'entering': {
        const { event: _event, ...lastEntered } = event;
        this.#watchCall(event.bytes);
        const state = event.call === 'register' ? 'registering' : this.#view.state;
        return this.#change({
          state: state === 'stalled' ? 'registering' : state,
          waiting: null,
          lastEntered: { ...lastEntered, seconds: null, code: null },
        });
      }
      case 'returned':
        return this.#returned(event);
      case 'result':
        this.#stopTimers();
        this.#hasResult = true;
        this.#leaseKept = event.leaseKept;
        if (event.state === 'failed' && this.#mayRepeat(event.reason)) return;
        if (event.state === 'failed' && this.#ending && this.#view.state === 'stalled') return;
        return this.#change({ state: event.state, reason: event.reason, waiting: null });
      case 'released':
        this.#stopTimers();
        this.#leaseKept = event.leaseKept;
        if (event.reason !== null) this.#change({ state: 'failed', reason: event.reason });
        // What registered stays so in the end: it did its work, and gave it back.
        return;
    }
  }

  #returned({ call, bytes, code, seconds }: Extract<RegistrarEvent, { event: 'returned' }>): void {
    this.#stopTimers();
    const { lastEntered, registeredChunks, registeredBytes, state } = this.#view;
    const sign = code !== 0 ? 0 : call === 'register' ? 1 : -1;
    if (call === 'register') this.#secondsInside += seconds;
    this.#change({
      state: state === 'stalled' ? this.#beforeStall : state,
      slow: false,
      registeredChunks: registeredChunks + sign,
      registeredBytes: registeredBytes + sign * bytes,
      lastEntered: lastEntered === null ? null : { ...lastEntered, seconds, code },
    });
  }

  #watchCall(bytes: number): void {
    this.#stopTimers();
    const { registeredBytes, state } = this.#view;
    if (state === 'stalled') this.#change({ state: this.#beforeStall });
    const expectedMs = registeredBytes > 0 ? (bytes / registeredBytes) * this.#secondsInside * 1000 : 0;
    const slowMs = Math.max(slowAfterMs, slowFactor * expectedMs);
    this.#slowTimer = setTimeout(() => this.#change({ slow: true }), slowMs);
    this.#stallTimer = setTimeout(() => {
      this.#beforeStall = this.#view.state;
      if (this.#view.state !== 'unkillable') this.#change({ state: 'stalled' });
    }, this.#options.stallAfterMs);
  }

  #stopTimers(): void {
    if (this.#slowTimer !== null) clearTimeout(this.#slowTimer);
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#slowTimer = this.#stallTimer = null;
    if (this.#view.slow) this.#change({ slow: false });
  }

  /** Once, alone in its turn, and in a fresh process: a context that has seen a failure is not used again. */
  #mayRepeat(why: Reason | null): boolean {
    const { attempt } = this.#view;
    return attempt < maxAttempts && !this.#ending && (why?.transient ?? false) && why?.code !== null;
  }

  #closed(code: number | null, signal: NodeJS.Signals | null): void {
    this.#stopTimers();
    const { attempt, state } = this.#view;
    const settled = state === 'registered' || state === 'staging' || state === 'failed';
    const crashed = !this.#hasResult && !this.#ending;
    const repeat =
      !this.#ending && attempt < maxAttempts && !settled && (crashed ? signal !== 'SIGKILL' : true);
    if (repeat) {
      this.#change({ ...freshAttempt, attempt: attempt + 1 });
      this.#child = this.#start({ ...this.#request, parallel: crashed && this.#request.parallel });
      return;
    }
    if (this.#killed) return this.#over(null, 'abandoned');
    if (settled) return this.#over(null);
    if (state === 'stalled') return this.#over(stalledReason(this.#view), 'stalled');
    if (this.#ending)
      return this.#over(reason('ended', 'The registration was ended; nothing is registered.'), 'failed');
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
    const words = this.#stderr.length > 0 ? ` Its last words: ${this.#stderr.join('\n')}` : '';
    const retry = signal === 'SIGKILL';
    return this.#over(
      reason('crashed', `The registrar ended ${how} before it had a result.${words}`, { transient: retry }),
      'failed',
    );
  }

  #over(why: Reason | null, state: SessionState = why === null ? this.#view.state : 'failed'): void {
    this.#change({
      state,
      gone: true,
      endedAtMs: this.#now(),
      leaseReleased: !this.#leaseKept || this.#ending,
      reason: why ?? this.#view.reason,
    });
    this.#gone.resolve();
  }

  #change(change: Partial<SessionView>): void {
    const leaseReleased = change.leaseReleased ?? this.#view.leaseReleased;
    this.#view = { ...this.#view, ...change, leaseReleased };
    this.#options.onEvent({ event: 'view', view: this.#view });
  }
}

function sendSignal(child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void {
  child.kill(signal);
}

function stalledReason({ lastEntered }: SessionView): Reason {
  const where =
    lastEntered === null
      ? 'before its first call'
      : `in region ${lastEntered.region} of ${lastEntered.regions}, chunk ${lastEntered.chunk} of ${lastEntered.chunks}`;
  return reason('ended', `The registration had stalled ${where} and was ended. Its lease is free again.`);
}

const freshAttempt = {
  state: 'planning',
  slow: false,
  step: null,
  waiting: null,
  registeredChunks: 0,
  registeredBytes: 0,
  reason: null,
} as const satisfies Partial<SessionView>;

const emptyView: SessionView = {
  ...freshAttempt,
  id: '',
  pid: null,
  startTicks: null,
  gone: false,
  startedAtMs: 0,
  endedAtMs: null,
  attempt: 1,
  plan: null,
  driver: null,
  lastEntered: null,
  leaseReleased: false,
  ignoredTermination: false,
};

/**
 * The live record that keeps a GPU from being asked again: a process that has been inside a call on it for longer
 * than its own limit, whoever started it. A second one would hang beside it.
 */
export function stuckOn(gpu: string, records: readonly RunRecord[], proc = '/proc'): RunRecord | null {
  return (
    records.find((record) => {
      const { gpus, stallAfterMs } = record.head;
      if (gpus.length > 0 && !gpus.includes(gpu)) return false;
      const last = record.events.at(-1);
      const inside = last?.event === 'entering' || last?.event === 'step';
      return inside && machineMs() - last.monotonicMs > stallAfterMs && isAlive(record, proc);
    }) ?? null
  );
}
