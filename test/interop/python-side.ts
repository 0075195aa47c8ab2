/**
 * The TypeScript client of side.py: one object is one Python process that holds the published host-weight
 * store. It owns that process, its requests in flight and the folder of its pause files.
 *
 * Identities, manifests and metadata cross as JSON text, because their exact numbers and surrogates are what
 * is under test. Python's names arrive in camel case; the `details` of a failure arrive as they are.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Failure } from '../../src/contract/failure.ts';
import { pythonEnvironment, type PythonEnvironment, type PythonVersions } from './environment.ts';

export type Validation = 'manifest_and_metadata' | 'full_checksum' | 'fs_verity';
export type StoreStatus = 'hit' | 'miss' | 'built' | 'joined' | 'invalid' | 'timeout' | 'failed';

export interface PythonInfo {
  readonly pid: number;
  readonly versions: PythonVersions;
  readonly features: {
    readonly cleanupQuarantined: boolean;
    readonly serializedAdmission: boolean;
    /** Of the dtypes that artifacts can hold, those this torch has, as `bfloat16`. */
    readonly dtypes: readonly string[];
  };
}

export interface OpenOptions {
  readonly root: string;
  readonly scope?: 'node' | 'numa';
  readonly domainId?: string;
  readonly storageClass?: 'disk' | 'tmpfs';
  readonly capacity?: {
    readonly maxArtifactBytes?: number | null;
    readonly maxStoreBytes?: number | null;
    readonly minFreeBytes?: number;
    readonly eviction?: string;
    /** Only wheels with `features.serializedAdmission` take it; others answer with a TypeError. */
    readonly buildAdmission?: string;
  };
  readonly requireTrustedPermissions?: boolean;
  readonly coordinationTimeoutSeconds?: number;
  /** The validation level of `resolve`. */
  readonly localLookup?: Validation;
}

export interface OpenedStore {
  /** Names the store in later requests. */
  readonly store: string;
  readonly root: string;
  readonly domainUuid: string;
  readonly filesystemType: string;
  readonly policyVersion: number;
  /** Measured around the package's own call, as everywhere below. */
  readonly elapsedSeconds: number;
}

export interface LeaseContent {
  /** Canonical text. */
  readonly manifest: string;
  readonly provenance: {
    readonly resolutionId: string;
    readonly identityDigest: string;
    readonly artifactContentSha256: string;
    readonly domainUuid: string;
    readonly publicationId: string;
    readonly resolutionSource: string;
    readonly artifactOrigin: string;
    readonly producerId: string | null;
    readonly providerId: string | null;
    readonly validationLevel: Validation;
    readonly backingFingerprint: string;
  };
  /** `offset` counts from the start of the payload file; null when the kernel's mappings don't tell. */
  readonly mappedRegions: readonly {
    readonly fileName: string;
    readonly offset: number | null;
    readonly length: number;
    readonly readOnly: boolean;
  }[];
  /** Digests of the mapped bytes themselves, sorted by name; null when they were not asked for. */
  readonly tensors: readonly { readonly name: string; readonly sha256: string }[] | null;
}

export interface StoreResult {
  readonly status: StoreStatus;
  readonly failure: Failure | null;
  readonly elapsedSeconds: number;
  /** For a status that carries a lease. */
  readonly content: LeaseContent | null;
  /** Set when the lease was to be kept and there is one: close it with closeLease. */
  readonly lease: string | null;
}

export interface LeaseOptions {
  readonly validation?: Validation;
  /** Keep the lease open after the reply. */
  readonly keepLease?: boolean;
  /** Hash every tensor's bytes for the reply; true by default. */
  readonly digests?: boolean;
}

export interface LookupOptions extends LeaseOptions {
  /** Null, the default, waits for ever. */
  readonly timeoutSeconds?: number | null;
}

export interface PythonTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** With or without `torch.` in front. */
  readonly dtype: string;
  readonly kind?: 'parameter' | 'buffer';
  readonly role?: string;
  /** The bytes, or else the seed of fillBytes; the name when neither is given. */
  readonly data?: Uint8Array;
  readonly fill?: string;
}

export interface PythonFile {
  readonly name: string;
  /** Names of its tensors; all of them by default. An unordered file is written in this order. */
  readonly tensors?: readonly string[];
  /** True by default. */
  readonly ordered?: boolean;
}

export interface Production {
  readonly tensors: readonly PythonTensor[];
  /** One ordered `weights.safetensors` with everything by default. */
  readonly files?: readonly PythonFile[];
  /** JSON text. */
  readonly formatMetadata?: string;
}

export interface BuildOptions extends LeaseOptions, Production {
  /** Of the whole coordination; 60 by default. */
  readonly timeoutSeconds?: number;
}

export type PauseWord = 'go' | 'exit' | 'fail';

/** A build whose producer stands still inside until it is told how to go on. */
export interface HeldBuild {
  /** True once the producer is inside; false when the build ends, or the process dies, without it. */
  readonly producing: Promise<boolean>;
  /** Whether the producer has been inside. */
  readonly inside: boolean;
  readonly result: Promise<StoreResult>;
  /** `go` on, die with os._exit, or `fail` with an exception. Can be said in advance. */
  tell(word: PauseWord): void;
}

export interface DomainInspection {
  readonly domainUuid: string;
  readonly scope: string;
  readonly domainId: string;
  readonly storageClass: string;
  readonly filesystemType: string;
  readonly policyVersion: number;
  readonly storeBytes: number;
  readonly filesystemFreeBytes: number;
  readonly maxArtifactBytes: number | null;
  readonly maxStoreBytes: number | null;
  readonly minFreeBytes: number;
  readonly elapsedSeconds: number;
  readonly inventory: readonly {
    readonly artifactKey: string;
    readonly state: 'denied' | 'quarantined' | 'ready' | 'temporary';
    readonly storageName: string;
    readonly sizeBytes: number;
    readonly reason: string | null;
  }[];
}

export interface ArtifactInspection {
  readonly artifactKey: string;
  readonly status: StoreStatus;
  readonly sizeBytes: number;
  /** Canonical text. */
  readonly manifest: string | null;
  readonly publicationId: string | null;
  readonly backingFingerprint: string | null;
  readonly failure: Failure | null;
  readonly buildLockActive: boolean;
  readonly artifactLockActive: boolean;
}

export interface LockOptions {
  /** True by default. */
  readonly exclusive?: boolean;
  /** One attempt only. A lock that is held is a PythonError of type FileLockTimeoutError. */
  readonly nonblocking?: boolean;
  /** Null, the default, waits for ever. */
  readonly timeoutSeconds?: number | null;
}

export interface ResolveOptions {
  /** An open store, or else `domain`: policies with which the runtime opens one itself. */
  readonly store?: string;
  readonly domain?: OpenOptions;
  readonly identity?: string;
  /** What a producer at hand would make; without it there is none. */
  readonly production?: Production;
  readonly allowLocalBuild?: boolean;
  readonly timeoutSeconds?: number;
  readonly validation?: Validation;
  readonly keepLease?: boolean;
}

export interface Resolution {
  readonly outcome:
    'local_hit' | 'remote_import' | 'local_production' | 'canonical_direct' | 'canonical_fallback' | 'failed';
  readonly attempts: readonly {
    readonly stage: Failure['stage'];
    readonly result: string;
    readonly action: string;
    readonly failure: Failure | null;
  }[];
  readonly elapsedSeconds: number;
  readonly content: LeaseContent | null;
  readonly lease: string | null;
}

/** What Python raised; `failure` when it was a HostWeightError. */
export class PythonError extends Error {
  readonly type: string;
  readonly failure: Failure | undefined;

  constructor(type: string, message: string, failure: Failure | undefined) {
    super(`${type}: ${message}`);
    this.name = 'PythonError';
    this.type = type;
    this.failure = failure;
  }
}

/** The process ended before it answered. */
export class PythonDied extends Error {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;

  constructor(exitCode: number | null, signal: NodeJS.Signals | null, stderr: string) {
    const how = signal === null ? `with code ${exitCode}` : `on ${signal}`;
    super(`The Python side ended ${how}.${stderr === '' ? '' : `\nIts stderr:\n${stderr}`}`);
    this.name = 'PythonDied';
    this.exitCode = exitCode;
    this.signal = signal;
  }
}

const fillBlockBytes = 1 << 20;

/** The bytes that side.py writes for a seed: block i is SHAKE-256 of "seed:i". */
export function fillBytes(seed: string, length: number, dtype = 'uint8'): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let start = 0; start < length; start += fillBlockBytes) {
    const outputLength = Math.min(fillBlockBytes, length - start);
    const block = createHash('shake256', { outputLength }).update(`${seed}:${start / fillBlockBytes}`);
    bytes.set(block.digest(), start);
  }
  // A boolean's byte is 0 or 1.
  return dtype.replace('torch.', '') === 'bool' ? bytes.map((byte) => byte & 1) : bytes;
}

interface Waiting {
  /** Where it was asked: an answer's own stack says nothing. */
  readonly asked: Error;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

const startTimeoutMs = 120_000;
const closeTimeoutMs = 5_000;
const keptStderr = 64 << 10;

export class PythonSide {
  /** What the process said of itself when it was ready. */
  info!: PythonInfo;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #producing = new Map<string, () => void>();
  readonly #ready: Promise<PythonInfo>;
  readonly #exited: Promise<void>;
  #onReady: ((info: PythonInfo) => void) | undefined;
  #nextId = 1;
  #stderr = '';
  #died: PythonDied | undefined;
  #pauses: string | undefined;

  private constructor(environment: PythonEnvironment) {
    // Python ends when its stdin does, so it can't outlive this process however that ends.
    this.#child = spawn(environment.interpreter, [...environment.args], {
      env: environment.env,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const { stdin, stdout, stderr } = this.#child;
    if (stdin === null || stdout === null || stderr === null)
      throw new Error('The Python side has no pipes.');
    this.#ready = new Promise((resolve) => (this.#onReady = resolve));
    // Writing to a process that has just died: its end is reported by `close`.
    stdin.on('error', () => undefined);
    stderr.setEncoding('utf8');
    stderr.on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-keptStderr);
    });
    createInterface({ input: stdout }).on('line', (line) => this.#receive(line));
    this.#exited = new Promise((resolve) => {
      const ended = (code: number | null, signal: NodeJS.Signals | null) => {
        this.#died = new PythonDied(code, signal, this.#stderr);
        for (const { reject } of this.#waiting.values()) reject(this.#died);
        this.#waiting.clear();
        if (this.#pauses !== undefined) rmSync(this.#pauses, { recursive: true, force: true });
        resolve();
      };
      this.#child.on('error', (error) => {
        this.#stderr += error.message;
        if (this.#child.pid === undefined) ended(null, null);
      });
      // Not `exit`: by now all of stdout and stderr has been read.
      this.#child.on('close', ended);
    });
  }

  static async start(environment: PythonEnvironment = pythonEnvironment()): Promise<PythonSide> {
    const side = new PythonSide(environment);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, startTimeoutMs, undefined);
    });
    const info = await Promise.race([side.#ready, side.#exited.then(() => undefined), late]);
    clearTimeout(timer);
    if (info !== undefined) {
      side.info = info;
      return side;
    }
    const died = side.#died;
    await side.kill();
    throw died ?? new Error(`The Python side was not ready in ${startTimeoutMs} ms.\n${side.stderr}`);
  }

  get pid(): number {
    return this.info.pid;
  }

  /** The end of what it wrote to stderr: warnings of the package's logger, mostly. */
  get stderr(): string {
    return this.#stderr;
  }

  ping(): Promise<PythonInfo> {
    return this.#ask('ping', {});
  }

  /** A refusal is a PythonError that carries the failure. */
  async open(options: OpenOptions): Promise<OpenedStore> {
    const store = newHandle('store');
    const opened = await this.#ask<Omit<OpenedStore, 'store'>>('open', { handle: store, ...options });
    return { store, ...opened };
  }

  /** Text goes through Python's json as text; bytes as a file's content would (BOM, UTF-16). */
  canonical(source: string | Uint8Array): Promise<{ readonly text: string; readonly sha256: string }> {
    return this.#ask('canonical', typeof source === 'string' ? { text: source } : { base64: base64(source) });
  }

  identity(identity: string): Promise<{ readonly key: string; readonly text: string }> {
    return this.#ask('identity', { identity });
  }

  lookup(store: string, identity: string, options: LookupOptions = {}): Promise<StoreResult> {
    return this.#askForLease('lookup', { store, identity, ...options });
  }

  /** The bytes that a kept lease maps, hashed anew. */
  readLease(lease: string): Promise<LeaseContent> {
    return this.#ask('lease_read', { lease });
  }

  closeLease(lease: string): Promise<void> {
    return this.#ask('lease_close', { lease });
  }

  build(store: string, identity: string, options: BuildOptions): Promise<StoreResult> {
    return this.#askForLease('build', {
      handle: newHandle('build'),
      store,
      identity,
      ...buildFields(options),
    });
  }

  /**
   * A build whose producer stops before it opens its first payload, or when all of them are written, and
   * waits to be told.
   */
  holdBuild(
    store: string,
    identity: string,
    options: BuildOptions,
    at: 'start' | 'written' = 'start',
  ): HeldBuild {
    const handle = newHandle('build');
    this.#pauses ??= mkdtempSync(path.join(os.tmpdir(), 'weightroom-pause-'));
    const pause = path.join(this.#pauses, handle);
    let inside = false;
    const entered = new Promise<boolean>((resolve) => {
      this.#producing.set(handle, () => {
        inside = true;
        resolve(true);
      });
    });
    const result = this.#askForLease<StoreResult>('build', {
      handle,
      store,
      identity,
      ...buildFields(options),
      pause: { path: pause, at },
    });
    // The caller may only be interested in the death of the process.
    const ended = result.then(
      () => false,
      () => false,
    );
    return {
      producing: Promise.race([entered, ended]),
      get inside() {
        return inside;
      },
      result,
      tell(word) {
        writeFileSync(`${pause}.tmp`, word);
        renameSync(`${pause}.tmp`, pause);
      },
    };
  }

  /** A raw flock through the package's FileLock; returns the handle for releaseLock. */
  async holdLock(file: string, options: LockOptions = {}): Promise<string> {
    const handle = newHandle('lock');
    await this.#ask('lock_hold', { handle, path: file, ...options });
    return handle;
  }

  releaseLock(lock: string): Promise<void> {
    return this.#ask('lock_release', { handle: lock });
  }

  async lockIsActive(file: string): Promise<boolean> {
    const { active } = await this.#ask<{ active: boolean }>('lock_is_active', { path: file });
    return active;
  }

  inspectDomain(store: string): Promise<DomainInspection> {
    return this.#ask('inspect_domain', { store });
  }

  /** inspect_domain, and the manifest of every published artifact parsed. */
  readManifests(store: string): Promise<{ readonly tensors: number; readonly elapsedSeconds: number }> {
    return this.#ask('read_manifests', { store });
  }

  inspectArtifact(
    store: string,
    identity: string,
    validation: Validation = 'manifest_and_metadata',
  ): Promise<ArtifactInspection> {
    return this.#ask('inspect_artifact', { store, identity, validation });
  }

  /** Null when it is gone. */
  async cleanup(store: string, identity: string): Promise<Failure | null> {
    const { failure } = await this.#ask<{ failure: Failure | null }>('cleanup', { store, identity });
    return failure;
  }

  resolve(mode: 'disabled' | 'preferred' | 'required', options: ResolveOptions = {}): Promise<Resolution> {
    const { production, ...rest } = options;
    const fields: Record<string, unknown> = { mode, ...rest };
    if (production !== undefined)
      fields['production'] = { handle: newHandle('build'), ...buildFields(production) };
    return this.#askForLease('resolve', fields);
  }

  /** Resolves when the process has ended; at once for signals that don't end it. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#died === undefined) this.#child.kill(signal);
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await this.#exited;
  }

  /** Ends the process, whatever it is doing. Nothing of it is left afterwards. */
  async close(): Promise<void> {
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), closeTimeoutMs);
    await this.#exited;
    clearTimeout(timer);
  }

  async #askForLease<T extends { readonly content: LeaseContent | null }>(
    command: string,
    { keepLease, ...fields }: Record<string, unknown>,
  ): Promise<T> {
    const lease = keepLease === true ? newHandle('lease') : undefined;
    const reply = await this.#ask<T>(command, lease === undefined ? fields : { ...fields, lease });
    return { ...reply, lease: reply.content === null ? null : (lease ?? null) };
  }

  #ask<T>(command: string, fields: Record<string, unknown>): Promise<T> {
    const id = this.#nextId;
    this.#nextId += 1;
    const asked = new Error(command);
    const answer = new Promise<unknown>((resolve, reject) => {
      if (this.#died !== undefined) {
        reject(this.#died);
        return;
      }
      this.#waiting.set(id, { asked, resolve, reject });
      const request = renamed({ id, command, ...fields }, snakeCase);
      this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    });
    return answer as Promise<T>;
  }

  #receive(line: string): void {
    const message = renamed(JSON.parse(line), camelCase) as Record<string, unknown>;
    if (message['event'] === 'ready') {
      this.#onReady?.(message as unknown as PythonInfo);
      return;
    }
    if (message['event'] === 'producing') {
      this.#producing.get(message['handle'] as string)?.();
      return;
    }
    const id = message['id'] as number;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (message['ok'] === true) {
      waiting?.resolve(message['result']);
      return;
    }
    const error = message['error'] as { type: string; message: string; failure?: Failure };
    const raised = new PythonError(error.type, error.message, error.failure);
    raised.stack = `${raised.name}: ${raised.message}\n${waiting?.asked.stack ?? ''}`;
    waiting?.reject(raised);
  }
}

function buildFields<T extends Production>({ tensors, ...rest }: T): Record<string, unknown> {
  return {
    timeoutSeconds: 60,
    ...rest,
    tensors: tensors.map(({ data, ...tensor }) => ({ ...tensor, ...(data && { data: base64(data) }) })),
  };
}

/** Unique in this process's life, and readable in a traceback. */
function newHandle(kind: string): string {
  return `${kind}-${randomUUID().slice(0, 8)}`;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** The same JSON with its keys renamed, but for what lies under `details`, whose keys are somebody's data. */
function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      rename(name),
      name === 'details' ? item : renamed(item, rename),
    ]),
  );
}
