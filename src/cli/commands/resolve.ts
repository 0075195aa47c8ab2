/** `weightroom resolve`: what a loader that asks for an identity would do, and why. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { addAbortSignal } from 'node:stream';
import { isSystemError } from '#native';
import type { Failure } from '../../contract/failure.ts';
import { nearestArtifacts, type NearArtifact } from '../../host/nearest.ts';
import { openStore, storeOutcome } from '../../host/stores.ts';
import { isJsonObject, JsonError, type JsonValue } from '../../store/canonical-json.ts';
import { deadlineIn } from '../../store/clock.ts';
import { reasonOf } from '../../store/faults.ts';
import { ArtifactIdentity, DocumentError } from '../../store/identity.ts';
import { parseJsonBytes } from '../../store/json-parser.ts';
import { maxMetadataBytes } from '../../store/paths.ts';
import { resolve, runtimeModes, type Resolution, type RuntimeMode } from '../../store/resolve.ts';
import { parseSeconds } from '../arguments.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { levelWords, milliseconds } from '../documents.ts';
import { formatDuration } from '../durations.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import { nearDocument, nearText } from '../near-artifacts.ts';
import { rootArgument } from '../store-arguments.ts';
import { fields } from '../table.ts';
import { wrongUse, type WrongUse } from '../wrong-use.ts';

export const command: Command = {
  positionals: [rootArgument, { name: 'identity.json', required: true }],
  options: {
    mode: { value: 'MODE', choices: runtimeModes, help: 'how the loader treats the store' },
    full: { help: 'hash every payload byte, not only manifest and metadata' },
    timeout: { value: 'SECONDS', help: 'how long to wait for a lock that is held (default 10)' },
  },
  details: `preferred: a loader falls back to the checkpoint on a miss, an invalid artifact or a retryable failure.
required: it fails without an artifact. The identity is a JSON file, or what \`weightroom show --json\` printed;
"-" reads it from standard input. For an identity that misses, the nearest artifacts are shown with the fields
that differ. As for a loader, an artifact that turns out to be invalid is denied from then on.`,
  example: 'weightroom resolve /var/lib/weights identity.json --mode required',
  interruptible: true,
  run,
};

async function run({ arguments: given, output, signal }: Invocation): Promise<ExitCode> {
  const mode = given.text('mode') as RuntimeMode | undefined;
  if (mode === undefined) throw wrongUse('--mode is missing: preferred or required.');
  const root = given.positional(0);
  const identity = await uninterrupted(signal, () => readIdentity(given.positional(1), signal));
  const seconds = parseSeconds(given.text('timeout') ?? '10', '--timeout');
  const validation = given.flag('full') ? 'full_checksum' : 'manifest_and_metadata';
  const options = { validation, deadline: deadlineIn(seconds * 1000), signal } as const;
  const resolution = await uninterrupted(signal, () =>
    resolve(mode, () => openStore(root), identity, null, options),
  );
  resolution.lease?.close();
  const missed = resolution.attempts.some(({ result }) => result === 'miss');
  const near = missed ? await nearestIn(root, identity) : [];
  const reason = resolution.outcome === 'failed' ? failureOf(resolution) : null;
  output.result({
    document: {
      key: identity.key,
      mode,
      outcome: resolution.outcome,
      elapsed_ms: milliseconds(resolution.elapsedMs),
      validation,
      attempts: resolution.attempts.map(({ stage, result, action, elapsedMs, failure }) => ({
        stage,
        result,
        action,
        elapsed_ms: milliseconds(elapsedMs),
        failure,
      })),
      nearest: nearDocument(near),
      failure: reason,
    },
    text: textOf(resolution, identity, missed ? near : null, levelWords[validation]),
    bare: resolution.outcome,
  });
  return reason === null ? exitCodes.done : exitCodeOf(reason);
}

async function uninterrupted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted) throw new Interrupted('Interrupted. Nothing was changed.');
    throw error;
  }
}

async function readIdentity(path: string, signal: AbortSignal): Promise<ArtifactIdentity> {
  try {
    const bytes = path === '-' ? await readStandardInput(signal) : await readIdentityFile(path);
    return ArtifactIdentity.of(withinShow(parseJsonBytes(bytes)));
  } catch (error) {
    if (error instanceof JsonError || error instanceof DocumentError) {
      throw wrongUse(`${path} holds no identity: ${error.message}.`);
    }
    if (isSystemError(error)) throw wrongUse(`the identity cannot be read from ${path}: ${reasonOf(error)}.`);
    throw error;
  }
}

async function readIdentityFile(path: string): Promise<Buffer> {
  // O_NONBLOCK: opening a FIFO would wait for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw wrongUse(`${path} is not a regular file. Give - to read from standard input.`);
    if (stat.size > maxMetadataBytes) throw tooLarge(path);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

async function readStandardInput(signal: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of addAbortSignal(signal, process.stdin) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxMetadataBytes) throw tooLarge('standard input');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooLarge(what: string): WrongUse {
  return wrongUse(`${what} holds more than ${maxMetadataBytes} bytes, which no identity has.`);
}

/** `weightroom show --json` and manifests have the identity as one of their fields. */
function withinShow(value: JsonValue): JsonValue {
  if (!isJsonObject(value) || Object.hasOwn(value, 'source')) return value;
  return value['identity'] ?? value;
}

async function nearestIn(root: string, identity: ArtifactIdentity): Promise<NearArtifact[]> {
  const domain = await openStore(root);
  if (!domain.ok) return [];
  const near = await storeOutcome('the store cannot be listed', () =>
    nearestArtifacts(domain.value, identity),
  );
  return near.ok ? near.value : [];
}

/** The last attempt says why there is no lease. */
function failureOf({ attempts }: Resolution): Failure {
  const failure = attempts.findLast((attempt) => attempt.failure !== null)?.failure ?? null;
  if (failure === null) throw new Error('a resolution failed without a failure');
  return failure;
}

const outcomes: Readonly<Record<Resolution['outcome'], string>> = {
  local_hit: 'the artifact is there and would be used',
  local_production: 'the artifact would be built and used',
  canonical_direct: 'the store is not asked: the loader reads the checkpoint',
  canonical_fallback: 'no artifact: the loader falls back to the checkpoint',
  failed: 'no artifact: the loader fails its start',
};

function textOf(
  { outcome, attempts }: Resolution,
  identity: ArtifactIdentity,
  near: readonly NearArtifact[] | null,
  level: string,
): string {
  return [
    `${outcome}: ${outcomes[outcome]}`,
    fields(
      [
        ['key', identity.key],
        ...(near === null && attempts.length > 0 ? [['checked', level] as const] : []),
        ...attempts.map(
          ({ stage, result, action, elapsedMs, failure }) =>
            [
              stage,
              `${result} -> ${action} (${formatDuration(elapsedMs)})${failure === null ? '' : `: ${failure.message}`}`,
            ] as const,
        ),
      ],
      '  ',
    ),
    ...(near === null ? [] : [nearText(near)]),
  ].join('\n');
}
