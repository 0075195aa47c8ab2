/** `weightroom register`: registers an artifact's pages with a GPU, as a worker would, and says where it stands. */
import { createInterface } from 'node:readline/promises';
import { failure } from '../../contract/failure.ts';
import type { DiagnosisFinding, Gpu } from '../../contract/gpu-schemas.ts';
import { diagnoseSession } from '../../host/diagnosing.ts';
import type { GpuRegistry } from '../../host/gpu-registry.ts';
import { startRegistration } from '../../host/registering.ts';
import { defaultChunkBytes, maxChunkBytes } from '../../registration/regions.ts';
import type { Reason } from '../../registration/registrar-protocol.ts';
import type {
  RegistrationSession,
  SessionEvent,
  SessionView,
} from '../../registration/registration-session.ts';
import { machineMs } from '../../registration/registrar-protocol.ts';
import { parseSeconds, type Arguments } from '../arguments.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { cudaLibraryOption, meantGpu, withGpus } from '../gpu-arguments.ts';
import { encodeDocument, type JsonDocument } from '../json-document.ts';
import type { Output } from '../output.ts';
import { formatRate, formatSize, parseSize } from '../sizes.ts';
import { keyArgument, meantKey, openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { wrongUse } from '../wrong-use.ts';

export const command: Command = {
  positionals: [rootArgument, keyArgument],
  options: {
    gpu: { value: 'GPU', help: 'index or UUID (needed)' },
    chunk: { value: 'SIZE', help: 'the most that one call registers (default 1GiB, at most 64GiB)' },
    'stall-after': {
      value: 'TIME',
      help: 'when a call that does not return counts as stalled (default 30s)',
    },
    parallel: { help: 'do not take turns with other registrars at the same file' },
    hold: { value: 'SECONDS', help: 'how long the pages stay registered (default 0)' },
    'on-stall': {
      value: 'WHAT',
      choices: ['ask', 'wait', 'end'],
      help: 'ask (default on a terminal), wait, or end the registrar (default elsewhere)',
    },
    force: { help: 'kill a registrar that does not end when asked; this can make a hung driver worse' },
    ...cudaLibraryOption,
  },
  details: `The calls are made in a process of their own, chunk by chunk; a call that never returns freezes that process and
nothing else. Before each call it is told which range is entered. All or nothing: a failure gives back what was
registered, last first. With --json: one event a line, and a closing document.`,
  example: 'weightroom register /var/lib/weights 3f9a1c --gpu 0',
  interruptible: true,
  run,
};

interface Wishes {
  readonly stallAfterMs: number;
  readonly holdMs: number;
  readonly onStall: 'ask' | 'wait' | 'end';
  readonly force: boolean;
  readonly chunkBytes: number;
  readonly parallel: boolean;
}

async function run(invocation: Invocation): Promise<ExitCode> {
  const { arguments: given } = invocation;
  const gpuText = given.text('gpu');
  if (gpuText === undefined)
    throw wrongUse('--gpu is missing: an index or a UUID, as `weightroom gpu list` shows them.');
  const wishes = wishesOf(given);
  const domain = await openedStore(given.positional(0));
  const { key } = await meantKey(domain, given.positional(1));
  return await withGpus(invocation, async (gpus) => {
    const gpu = await meantGpu(gpus, gpuText);
    return await new Registering(invocation, gpus, gpu, wishes).run(domain.root, key);
  });
}

/** Of one run of the command. */
class Registering {
  readonly #output: Output;
  readonly #signal: AbortSignal;
  readonly #gpus: GpuRegistry;
  readonly #gpu: Gpu;
  readonly #wishes: Wishes;
  readonly #settled = Promise.withResolvers<void>();
  #session: RegistrationSession | null = null;
  /** Known before the session is: it tells its first state while it is made. */
  #id: string | null = null;
  #findings: readonly DiagnosisFinding[] = [];
  #stallAnswered = false;
  #closed = false;
  #lastState = '';
  #simulated = false;
  #most: Pick<SessionView, 'registeredBytes'> = { registeredBytes: 0 };

  constructor({ output, signal }: Invocation, gpus: GpuRegistry, gpu: Gpu, wishes: Wishes) {
    this.#output = output;
    this.#signal = signal;
    this.#gpus = gpus;
    this.#gpu = gpu;
    this.#wishes = wishes;
  }

  async run(root: string, key: string): Promise<ExitCode> {
    const { chunkBytes, parallel, stallAfterMs, holdMs } = this.#wishes;
    this.#simulated = (await this.#gpus.remembered()).simulated;
    const wish = { root, key, gpu: this.#gpu, chunkBytes, parallel };
    const started = valueOf(
      startRegistration(this.#gpus, wish, { stallAfterMs, onEvent: (event) => this.#take(event) }),
    );
    if (started.kind === 'staging') return this.#close('staging', started.reason, null, true);
    const { session } = started;
    this.#session = session;
    const interrupted = this.#interruption();
    await Promise.race([this.#settled.promise, session.gone, interrupted]);
    if (session.view.state === 'registered' && !this.#signal.aborted) {
      await Promise.race([sleep(holdMs), session.gone, interrupted]);
    }
    if (session.view.state === 'registered') {
      session.release();
      await Promise.race([session.gone, this.#released.promise, sleep(30_000)]);
    }
    if (!session.view.gone && this.#signal.aborted) await session.end({ force: this.#wishes.force });
    if (
      !session.view.gone &&
      !keepsPages(session.view) &&
      ['staging', 'failed'].includes(session.view.state)
    ) {
      await Promise.race([session.gone, sleep(5000)]);
    }
    const { state, reason, leaseReleased, gone } = session.view;
    if (reason?.kind === 'platform_forbids') await this.#gpus.forbid(this.#gpu.uuid);
    await this.#diagnose(session);
    if (this.#signal.aborted) {
      throw new Interrupted(
        gone
          ? 'The registration was ended; nothing is registered and the lease is free.'
          : `The registrar (process ${session.view.pid}) does not go; its lease stays held until the driver lets go of it.`,
        this.#document(state, reason, session.view, leaseReleased),
      );
    }
    const code = this.#close(state, reason, session.view, leaseReleased);
    if (!gone && state !== 'unkillable' && !session.view.ignoredTermination) await session.end();
    if (!session.view.gone) session.leave();
    return code;
  }

  readonly #released = Promise.withResolvers<void>();

  #take(event: SessionEvent): void {
    if (event.event !== 'view') {
      if (event.event === 'driver') this.#simulated = event.simulated;
      if (event.event === 'released')
        setTimeout(() => this.#released.resolve(), event.leaseKept ? 0 : 5000).unref();
      this.#stream({ ...event, gpu: this.#gpu.uuid });
      return;
    }
    const { view } = event;
    this.#id = view.id;
    if (view.registeredBytes > this.#most.registeredBytes) this.#most = view;
    this.#show(view);
    const slow = view.slow ? 'slow' : view.state;
    if (slow !== this.#lastState) {
      this.#lastState = slow;
      this.#stream({ event: 'state', state: view.state, slow: view.slow, at_ms: Date.now() });
    }
    if (view.state === 'stalled' && !view.gone) void this.#stalled();
    if (['registered', 'staging', 'failed', 'unkillable'].includes(view.state)) this.#settled.resolve();
  }

  async #stalled(): Promise<void> {
    if (this.#stallAnswered || this.#session === null) return;
    this.#stallAnswered = true;
    const session = this.#session;
    await this.#diagnose(session);
    let { onStall } = this.#wishes;
    if (onStall === 'ask') {
      this.#output.note(`${whereWords(session.view)}\n${findingWords(this.#findings)}`);
      onStall = (await ask('Wait on, or end this registrar? [w/e] ')).startsWith('e') ? 'end' : 'wait';
    }
    if (session.view.state !== 'stalled') {
      this.#stallAnswered = false;
      return;
    }
    if (onStall === 'wait') return;
    const gone = await session.end({ force: this.#wishes.force });
    if (!gone && !this.#wishes.force && this.#wishes.onStall === 'ask') {
      const risk =
        'It does not go when asked. Killing it in the middle of a driver call can make the GPU unusable until a reboot. Kill it? [y/N] ';
      if ((await ask(risk)).startsWith('y')) await session.end({ force: true });
    }
    this.#settled.resolve();
  }

  async #diagnose(session: RegistrationSession): Promise<void> {
    const { state, gone } = session.view;
    if (state === 'registered' || (gone && this.#findings.length > 0)) return;
    this.#findings = (await diagnoseSession(this.#gpus, session.view.id, session.view)).findings;
  }

  #interruption(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#signal.aborted) resolve();
      this.#signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  #show(view: SessionView): void {
    const { state, lastEntered, plan, registeredBytes } = view;
    if (state !== 'registering' && state !== 'waiting-for-admission' && state !== 'stalled') return;
    const where = lastEntered === null ? '' : ` ${lastEntered.region} of ${lastEntered.regions}`;
    this.#output.progress({
      phase: state === 'registering' ? `registering region${where}` : `${state.replaceAll('-', ' ')}${where}`,
      doneBytes: registeredBytes,
      totalBytes: plan?.bytes ?? 0,
      bytesPerSecond: null,
      secondsLeft: null,
    });
  }

  #stream(document: JsonDocument): void {
    // The closing document is the last line.
    if (!this.#output.mode.json || this.#closed) return;
    const label = this.#simulated ? { ...document, simulated: true } : document;
    process.stdout.write(`${encodeDocument({ session: this.#id, ...label })}\n`);
  }

  #document(
    state: SessionView['state'],
    reason: Reason | null,
    view: SessionView | null,
    leaseReleased: boolean,
  ): JsonDocument {
    const last = view?.lastEntered ?? null;
    const entered =
      last === null
        ? null
        : {
            call: last.call,
            file: last.file,
            region: last.region,
            regions: last.regions,
            chunk: last.chunk,
            chunks: last.chunks,
            bytes: last.bytes,
            seconds: last.seconds ?? (machineMs() - last.monotonicMs) / 1000,
          };
    const { index, uuid, name } = this.#gpu;
    return {
      session: view?.id ?? null,
      state: state.replaceAll('-', '_'),
      gpu: { index, uuid, name },
      regions: view?.plan?.regions ?? null,
      chunks: view?.plan?.chunks ?? null,
      bytes: view?.plan?.bytes ?? null,
      last_entered: entered,
      diagnosis: this.#findings,
      reason,
      lease_released: leaseReleased,
      ...(this.#simulated ? { simulated: true } : {}),
    };
  }

  #close(
    state: SessionView['state'],
    reason: Reason | null,
    view: SessionView | null,
    leaseReleased: boolean,
  ): ExitCode {
    this.#closed = true;
    const document = this.#document(state, reason, view, leaseReleased);
    const label = this.#simulated ? 'SIMULATED: ' : '';
    const lease = leaseReleased ? 'The lease is free.' : heldWords(view);
    if (state === 'registered' || state === 'staging') {
      const did = `Registered ${formatSize(view?.plan?.bytes ?? 0)} in ${view?.plan?.chunks ?? 0} chunks, and gave it back.`;
      const text = state === 'registered' ? `${did}${rateWords(view)}` : `Staging: ${reason?.message ?? ''}`;
      this.#output.result({ document, text: `${label}${text}`, bare: state });
      return exitCodes.done;
    }
    const retryable = state === 'stalled' || (reason?.transient ?? false);
    const words = [
      state === 'stalled' && view !== null ? whereWords(view) : (reason?.message ?? state),
      lease,
    ];
    const message = `${label}${words.join(' ')}\n${findingWords(this.#findings)}`.trimEnd();
    this.#output.failure(failure('lifecycle', 'unsupported', message, { retryable }), 'register', document);
    return retryable ? exitCodes.retryable : exitCodes.failed;
  }
}

function wishesOf(given: Arguments): Wishes {
  const chunk = given.text('chunk');
  const chunkBytes = chunk === undefined ? defaultChunkBytes : parseSize(chunk, '--chunk');
  if (chunkBytes < 4096 || chunkBytes > maxChunkBytes) throw wrongUse('--chunk is from 4KiB to 64GiB.');
  const onStall = given.text('on-stall') ?? (process.stdin.isTTY && process.stderr.isTTY ? 'ask' : 'end');
  return {
    stallAfterMs: parseTime(given.text('stall-after') ?? '30s', '--stall-after'),
    holdMs: parseSeconds(given.text('hold') ?? '0', '--hold') * 1000,
    onStall: onStall as Wishes['onStall'],
    force: given.flag('force'),
    chunkBytes,
    parallel: given.flag('parallel'),
  };
}

/** `30s`, `500ms`, `2min` or a number of seconds, in milliseconds. */
function parseTime(text: string, what: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|min)?$/.exec(text) ?? [];
  const factor = { ms: 1, s: 1000, min: 60_000 }[unit];
  const milliseconds = Number(number) * (factor ?? Number.NaN);
  if (Number.isFinite(milliseconds) && milliseconds >= 100 && milliseconds <= 86_400_000) return milliseconds;
  throw wrongUse(`${what} is a time from 100ms to a day, as 30s or 2min, not ${JSON.stringify(text)}.`);
}

/** Then it stays, with its lease, until it is ended. */
function keepsPages({ reason }: SessionView): boolean {
  return reason?.kind === 'rollback_failed' || reason?.kind === 'unregister_failed';
}

function whereWords({ lastEntered, pid }: SessionView): string {
  if (lastEntered === null) return `The registrar (process ${pid}) has stalled before its first call.`;
  const { region, regions, chunk, chunks, bytes, monotonicMs } = lastEntered;
  const seconds = ((machineMs() - monotonicMs) / 1000).toFixed(1);
  return `Stalled: region ${region} of ${regions}, chunk ${chunk} of ${chunks} (${formatSize(bytes)}) was entered ${seconds} s ago and has not come back.`;
}

function heldWords(view: SessionView | null): string {
  if (view === null || !view.ignoredTermination || view.state === 'unkillable')
    return 'The lease is still held.';
  return `The registrar (process ${view.pid}) does not go when asked and holds its lease still. The kernel kills it as this command ends.`;
}

function rateWords(view: SessionView | null): string {
  const last = view?.lastEntered;
  if (!last?.seconds || last.call !== 'register') return '';
  return ` (${formatRate(last.bytes / last.seconds)})`;
}

export function findingWords(findings: readonly DiagnosisFinding[]): string {
  return findings
    .map(({ summary, confidence, evidence, next }) =>
      [`${summary} (${confidence})`, ...evidence.map((line) => `  - ${line}`), `  Next: ${next}`].join('\n'),
    )
    .join('\n');
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await lines.question(question)).trim().toLowerCase();
  } finally {
    lines.close();
  }
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
