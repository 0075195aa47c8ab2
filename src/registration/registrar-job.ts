/**
 * One registration, inside its own process: lease, plan, budget, driver, and then call by call. Every call is told
 * before it is entered and after it came back.
 *
 * All or nothing: what was registered is unregistered, last first, when anything fails. Pages go back to the driver
 * before they are unmapped, and the lease goes last. Where pages can't be given back nothing is unmapped and the
 * lease stays for as long as this process does. Source: registration specification, sections 1 and 3.
 */
import { native, isSystemError, type CudaThread, type Mapping } from '#native';
import { openDomain } from '../store/domain.ts';
import type { Lease, OpenPayload } from '../store/lease.ts';
import { holdersOfFile } from '../store/lock-holders.ts';
import type { FileLock } from '../store/lock.ts';
import { inspectKey } from '../store/lookup.ts';
import { monotonicMs } from '../store/clock.ts';
import { mountOf, readMounts } from '../store/filesystem-type.ts';
import { artifactLock } from '../store/paths.ts';
import { join } from 'node:path';
import { admitted } from './admission.ts';
import { meaningOf } from './driver-answers.ts';
import { noDriver } from './libraries.ts';
import { planRegistration, type Chunk, type RegistrationPlan } from './regions.ts';
import {
  reason,
  type Place,
  type Reason,
  type RegistrarEvent,
  type RegistrarRequest,
  type Stamp,
  type Step,
} from './registrar-protocol.ts';

type Unstamped<T> = T extends Stamp ? Omit<T, keyof Stamp> : never;
export type RegistrarNews = Unstamped<RegistrarEvent>;

export interface JobSurroundings {
  /** Returns when the event is on record. */
  readonly emit: (event: RegistrarNews) => void;
  /** Fires when the registration is to be undone as soon as the running call is back. */
  readonly signal: AbortSignal;
}

/** Unwinds to `run`, which turns it into the result. */
class Refused extends Error {
  readonly why: Reason;
  readonly staging: boolean;

  constructor(why: Reason, staging = false) {
    super(why.message);
    this.why = why;
    this.staging = staging;
  }
}

export class RegistrarJob {
  readonly #request: RegistrarRequest;
  readonly #emit: (event: RegistrarNews) => void;
  readonly #signal: AbortSignal;
  readonly #mappings = new Map<string, Mapping>();
  readonly #registered: Chunk[] = [];
  #lease: Lease | null = null;
  #thread: CudaThread | null = null;
  #deviceOpen = false;
  /** Monotonic; null while no call is out. */
  #insideSinceMs: number | null = null;
  #admission: FileLock | null = null;

  constructor(request: RegistrarRequest, { emit, signal }: JobSurroundings) {
    this.#request = request;
    this.#emit = emit;
    this.#signal = signal;
  }

  /** How long the call has been out that is out now; 0 between calls. */
  get insideMs(): number {
    return this.#insideSinceMs === null ? 0 : monotonicMs() - this.#insideSinceMs;
  }

  get holdsPages(): boolean {
    return this.#registered.length > 0;
  }

  /** Ends with a `result` event. True: the pages are registered, and `release` is due. */
  async register(): Promise<boolean> {
    try {
      await this.#registerAll();
      this.#emit({ event: 'result', state: 'registered', reason: null, leaseKept: false });
      return true;
    } catch (error) {
      const { why, staging } = this.#explain(error);
      const failure = await this.#giveBack();
      if (failure === null) await this.#close();
      this.#emit({
        event: 'result',
        state: staging && failure === null ? 'staging' : 'failed',
        reason: failure === null ? why : rollbackFailed(why, failure),
        leaseKept: failure !== null,
      });
      return false;
    } finally {
      this.#leaveAdmission();
    }
  }

  /** Ends with a `released` event. False where pages can't be given back. */
  async release(): Promise<boolean> {
    const failure = await this.#giveBack();
    if (failure === null) await this.#close();
    this.#emit({
      event: 'released',
      reason: failure === null ? null : unregisterFailed(failure),
      leaseKept: failure !== null,
    });
    return failure === null;
  }

  async #registerAll(): Promise<void> {
    const lease = await this.#openLease();
    const plan = planRegistration(lease.regions, this.#request.chunkBytes, native.pageSize());
    this.#map(lease, plan);
    this.#checkBudget(plan);
    const thread = await this.#openDevice();
    for (const payload of lease.payloads) {
      const chunks = plan.chunks.filter(({ fileName }) => fileName === payload.fileName);
      if (chunks.length === 0) continue;
      await this.#enterAdmission(payload);
      for (const chunk of chunks) await this.#registerChunk(thread, chunk, payload);
      this.#leaveAdmission();
    }
    requireCovered(lease, this.#registered);
  }

  async #openLease(): Promise<Lease> {
    this.#step('opening-lease');
    const { root, key } = this.#request;
    const domain = await openDomain(root);
    if (!domain.ok) throw refusedLease(domain.failure.message, domain.failure.retryable);
    const found = await inspectKey(domain.value, key, { signal: this.#signal });
    if (found.status === 'miss') throw refusedLease(`${root} has no artifact ${key}.`, false);
    if (found.status !== 'hit') throw refusedLease(found.failure.message, found.failure.retryable);
    this.#lease = found.lease;
    return found.lease;
  }

  #map(lease: Lease, plan: RegistrationPlan): void {
    this.#step('mapping');
    const mounts = readMounts();
    const files = lease.payloads.map((payload) => {
      const path = this.#payloadPath(payload);
      const filesystem = mountOf(path, mounts)?.type ?? 'unknown';
      if (plan.chunks.some(({ fileName }) => fileName === payload.fileName)) {
        this.#mappings.set(payload.fileName, mapPayload(payload, path, filesystem));
      }
      return { name: payload.fileName, path, bytes: payload.sizeBytes, filesystem };
    });
    this.#emit({
      event: 'plan',
      regions: plan.regions,
      chunks: plan.chunks.length,
      bytes: plan.bytes,
      files,
    });
  }

  /** Before any call into the driver. */
  #checkBudget({ bytes }: RegistrationPlan): void {
    const { limitBytes } = this.#request;
    if (limitBytes === null || bytes <= limitBytes) return;
    throw new Refused(
      reason(
        'over_budget',
        `The artifact's pages (${bytes} bytes) are more than this GPU's limit (${limitBytes} bytes), so bounded staging is used. Raise the limit, or set it to none.`,
        { details: { bytes, limit_bytes: limitBytes } },
      ),
      true,
    );
  }

  async #openDevice(): Promise<CudaThread> {
    const thread = native.cudaThread();
    this.#thread = thread;
    this.#step('loading-driver');
    const loaded = await this.#inside(native.cudaLoad(thread, this.#request.libraries));
    if (loaded.path === null) throw new Refused(reason('no_driver', noDriver(loaded.attempts).message));
    this.#step('initialising-driver');
    const started = await this.#inside(native.cudaInitialise(thread));
    requireSuccess(started);
    const { path, simulated } = loaded;
    this.#emit({ event: 'driver', path, simulated, version: started.driverVersion });
    this.#step('asking-device');
    const found = await this.#inside(native.cudaDevices(thread));
    requireSuccess(found);
    const { gpu } = this.#request;
    const device = found.devices.find(({ uuid }) => uuid === gpu);
    if (device === undefined)
      throw new Refused(reason('no_such_gpu', `The driver does not know the GPU ${gpu}.`));
    if (!device.readOnlyRegister) throw new Refused(unsupported(device.name), true);
    this.#signal.throwIfAborted();
    this.#step('opening-device');
    requireSuccess(await this.#inside(native.cudaOpen(thread, device.index)));
    this.#deviceOpen = true;
    return thread;
  }

  async #enterAdmission(payload: OpenPayload): Promise<void> {
    const { admissionFolder: folder, parallel } = this.#request;
    const file = payload.fileName;
    this.#admission = await admitted({
      folder,
      fd: payload.fd,
      parallel,
      signal: this.#signal,
      onWait: (holders) => {
        const others = holders.map(({ pid, command }) => ({ pid, command }));
        this.#emit({ event: 'waiting', file, holders: others });
      },
    });
  }

  #leaveAdmission(): void {
    this.#admission?.release();
    this.#admission = null;
  }

  async #registerChunk(thread: CudaThread, chunk: Chunk, payload: OpenPayload): Promise<void> {
    this.#signal.throwIfAborted();
    const mapping = this.#mappings.get(chunk.fileName) as Mapping;
    const status = await this.#call('register', chunk, native.cudaRegister.bind(null, thread, mapping));
    if (status.code === 0) {
      this.#registered.push(chunk);
      return;
    }
    const filesystem = mountOf(this.#payloadPath(payload), readMounts())?.type ?? 'unknown';
    const { reason: why, stages } = meaningOf(status, this.#isContended());
    throw new Refused({ ...why, details: { ...why.details, ...placeOf(chunk), filesystem } }, stages);
  }

  /** Others at the same artifact now: registrars that were not asked to take turns, or workers that lease it. */
  #isContended(): boolean {
    const lock = join(this.#request.root, 'locks', artifactLock(this.#request.key));
    return holdersOfFile(lock, '/proc', 'name').some(({ pid }) => pid !== process.pid);
  }

  /** Null when nothing is registered any more; else what the driver said. Exactly the ranges that were registered. */
  async #giveBack(): Promise<CudaAnswer | null> {
    while (this.#registered.length > 0) {
      const chunk = this.#registered.at(-1) as Chunk;
      const mapping = this.#mappings.get(chunk.fileName) as Mapping;
      const unregister = native.cudaUnregister.bind(null, this.#thread as CudaThread, mapping);
      let status = await this.#call('unregister', chunk, unregister);
      // What an earlier call left latched is not this one's answer.
      if (status.code !== 0) status = await this.#call('unregister', chunk, unregister);
      if (status.code !== 0) return status;
      this.#registered.pop();
    }
    return null;
  }

  async #close(): Promise<void> {
    if (this.#thread !== null && this.#deviceOpen) {
      this.#step('closing-device');
      this.#deviceOpen = false;
      await this.#inside(native.cudaClose(this.#thread));
    }
    for (const mapping of this.#mappings.values()) native.unmap(mapping);
    this.#mappings.clear();
    this.#lease?.close();
    this.#lease = null;
  }

  async #call(
    call: 'register' | 'unregister',
    chunk: Chunk,
    enter: (offset: number, bytes: number) => Promise<CudaAnswer>,
  ): Promise<CudaAnswer> {
    const place = placeOf(chunk);
    this.#emit({ event: 'entering', call, ...place });
    const beganMs = monotonicMs();
    const status = await this.#inside(enter(chunk.offset, chunk.bytes));
    const seconds = (monotonicMs() - beganMs) / 1000;
    this.#emit({ event: 'returned', call, ...place, code: status.code, seconds });
    return status;
  }

  async #inside<T>(call: Promise<T>): Promise<T> {
    this.#insideSinceMs = monotonicMs();
    try {
      return await call;
    } finally {
      this.#insideSinceMs = null;
    }
  }

  #step(step: Step): void {
    this.#emit({ event: 'step', step });
  }

  #payloadPath({ fileName }: OpenPayload): string {
    return join(this.#request.root, 'artifacts', this.#request.key, fileName);
  }

  #explain(error: unknown): { why: Reason; staging: boolean } {
    if (error instanceof Refused) return error;
    if (this.#signal.aborted) return { why: reason('ended', 'The registration was ended.'), staging: false };
    const message = error instanceof Error ? error.message : String(error);
    if (isSystemError(error)) return { why: reason('lease_unavailable', message), staging: false };
    return { why: reason('crashed', `A bug in the registrar: ${message}`), staging: false };
  }
}

type CudaAnswer = Awaited<ReturnType<typeof native.cudaRegister>>;

function placeOf({ fileName, region, regions, chunk, chunks, bytes }: Chunk): Place {
  return { file: fileName, region, regions, chunk, chunks, bytes };
}

function requireSuccess(status: CudaAnswer): void {
  if (status.code === 0) return;
  const { call, code, name, text } = status;
  throw new Refused(
    reason('driver_error', `The driver did not start for this GPU (${call}: ${code} ${name}, ${text}).`, {
      code,
      name,
    }),
  );
}

function refusedLease(message: string, transient: boolean): Refused {
  return new Refused(reason('lease_unavailable', message, { transient }));
}

function unsupported(gpu: string): Reason {
  return reason(
    'unsupported',
    `${gpu} cannot register pages that are mapped for reading only (attribute 113 is 0), so no call was made and bounded staging is used. Nothing is broken.`,
  );
}

function mapPayload({ fd, sizeBytes }: OpenPayload, path: string, filesystem: string): Mapping {
  try {
    return native.mapReadOnly(fd, sizeBytes);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new Refused(
      reason(
        'cannot_map',
        `${path} cannot be mapped on ${filesystem} (${error.code}). Put the store on a local file system.`,
        { details: { errno: error.code, filesystem } },
      ),
    );
  }
}

function rollbackFailed(why: Reason, status: CudaAnswer): Reason {
  const { code, name, text } = status;
  return reason(
    'rollback_failed',
    `${why.message} What was registered could not be given back (${code} ${name}, ${text}), so the lease is kept until the registrar's process is gone.`,
    { code, name, details: { first_reason: why.kind, first_code: why.code } },
  );
}

function unregisterFailed({ code, name, text }: CudaAnswer): Reason {
  return reason(
    'unregister_failed',
    `The pages could not be given back (${code} ${name}, ${text}), so the lease is kept until the registrar's process is gone.`,
    { code, name },
  );
}

/** Every tensor lies in pages that are registered: else a copy to the GPU would not be direct. */
function requireCovered(lease: Lease, registered: readonly Chunk[]): void {
  const bytes = registered.reduce((total, chunk) => total + chunk.bytes, 0);
  const planned = planRegistration(lease.regions, native.pageSize() * 1024 ** 2, native.pageSize()).bytes;
  if (bytes === planned) return;
  throw new Error(`${bytes} of ${planned} bytes are registered`);
}
