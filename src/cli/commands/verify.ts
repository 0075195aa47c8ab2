/** `weightroom verify`: checks artifacts and says which level of check that was. */
import { verifyArtifacts, type Verification, type VerificationProgress } from '../../host/verification.ts';
import { missingArtifact, storeOutcome } from '../../host/stores.ts';
import type { Failure } from '../../contract/failure.ts';
import type { Domain } from '../../store/domain.ts';
import { inventory } from '../../store/inventory.ts';
import type { ValidationLevel } from '../../store/lease.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { count, levelWords, milliseconds, shortKey } from '../documents.ts';
import { formatDuration } from '../durations.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import type { Output } from '../output.ts';
import { formatRate, formatSize } from '../sizes.ts';
import { meantKey, openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { table } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument, { name: 'key', required: false, many: true }],
  options: { full: { help: 'hash every payload byte, not only manifest and metadata' } },
  details: `Without keys every published artifact is checked. Nothing is changed: what fails is reported, and stays in
the store until it is removed or built anew with \`build --full\`. With --quiet: the keys that did not pass, one a line.

Without --full the payload's bytes are not read: a flipped bit in a weight goes unseen.`,
  example: 'weightroom verify /var/lib/weights --full',
  interruptible: true,
  run,
};

async function run({ arguments: given, output, signal }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const level: ValidationLevel = given.flag('full') ? 'full_checksum' : 'manifest_and_metadata';
  const targets = await targetsOf(domain, given.positionals.slice(1));
  const started = performance.now();
  const results: Verification[] = [];
  const meter = new Meter(output, started, targets.length, level);
  const options = { level, signal, onProgress: meter.show };
  for await (const result of verifyArtifacts(domain, targets, options)) {
    results.push(result);
    meter.artifactsDone = results.length;
  }
  const summary = { level, results, elapsedMs: performance.now() - started };
  if (results.length < targets.length) {
    const left = count(targets.length - results.length, 'artifact');
    throw new Interrupted(`Interrupted: ${left} not checked. Nothing was changed.`, documentOf(summary));
  }
  return report(summary, output);
}

/** Keys that are not there are checked too, so that they come out as missing. */
async function targetsOf(
  domain: Domain,
  words: readonly string[],
): Promise<{ key: string; bytes: number }[]> {
  const listed = valueOf(await storeOutcome('the store cannot be listed', () => inventory(domain)));
  const bytes = new Map(
    listed.entries.flatMap((entry) => (entry.state === 'ready' ? [[entry.key, entry.bytes]] : [])),
  );
  if (words.length === 0) return [...bytes].map(([key, size]) => ({ key, bytes: size }));
  const keys = new Set<string>();
  for (const word of words) keys.add((await meantKey(domain, word)).key);
  return [...keys].map((key) => ({ key, bytes: bytes.get(key) ?? 0 }));
}

/** Rate and time left, over the whole run. */
class Meter {
  artifactsDone = 0;
  readonly #output: Output;
  readonly #started: number;
  readonly #artifacts: number;
  readonly #level: ValidationLevel;

  constructor(output: Output, started: number, artifacts: number, level: ValidationLevel) {
    this.#output = output;
    this.#started = started;
    this.#artifacts = artifacts;
    this.#level = level;
  }

  readonly show = ({ doneBytes, totalBytes }: VerificationProgress): void => {
    const what = this.#level === 'full_checksum' ? 'hashing' : 'checking';
    const seconds = (performance.now() - this.#started) / 1000;
    const rate = this.#level === 'full_checksum' && seconds > 0.5 ? doneBytes / seconds : null;
    this.#output.progress({
      phase: `${what} ${Math.min(this.artifactsDone + 1, this.#artifacts)} of ${this.#artifacts}`,
      doneBytes,
      totalBytes,
      bytesPerSecond: rate,
      secondsLeft: rate === null || rate === 0 ? null : (totalBytes - doneBytes) / rate,
    });
  };
}

interface Summary {
  readonly level: ValidationLevel;
  readonly results: readonly Verification[];
  readonly elapsedMs: number;
}

function report(summary: Summary, output: Output): ExitCode {
  output.result({
    document: documentOf(summary),
    text: textOf(summary),
    bare: summary.results.flatMap(({ status, key }) => (status === 'valid' ? [] : [key])).join('\n'),
    problems: summary.results.flatMap(problemOf),
  });
  const worst = worstFailure(summary.results);
  if (worst === null) return exitCodes.done;
  return worst.retryable ? exitCodes.retryable : exitCodes.failed;
}

function documentOf({ level, results, elapsedMs }: Summary): JsonDocument {
  return {
    level,
    artifacts: results.map((result) => ({
      key: result.key,
      status: result.status,
      bytes: result.bytes,
      elapsed_ms: milliseconds(result.elapsedMs),
      failure: failureOf(result),
    })),
    valid: results.filter(({ status }) => status === 'valid').length,
    bytes: totalBytes(results),
    elapsed_ms: milliseconds(elapsedMs),
    failure: worstFailure(results),
  };
}

function totalBytes(results: readonly Verification[]): number {
  return results.reduce((total, { bytes }) => total + bytes, 0);
}

function failureOf({ key, status, failure }: Verification): Failure | null {
  return status === 'missing' ? missingArtifact(key, `artifact ${key} is not in the store`) : failure;
}

/** One that no retry cures before one that can be retried. */
function worstFailure(results: readonly Verification[]): Failure | null {
  const failures = results.map(failureOf).filter((failure) => failure !== null);
  return failures.find(({ retryable }) => !retryable) ?? failures[0] ?? null;
}

function textOf({ level, results, elapsedMs }: Summary): string {
  if (results.length === 0) return 'There is no published artifact to check.';
  const rows = results.map(({ key, status, bytes, elapsedMs: took }) => [
    shortKey(key),
    status,
    formatSize(bytes),
    formatDuration(took),
  ]);
  const columns = [
    { title: 'KEY' },
    { title: 'RESULT' },
    { title: 'SIZE', align: 'right' },
    { title: 'TOOK' },
  ] as const;
  const failures = results.flatMap(problemOf);
  const valid = results.filter(({ status }) => status === 'valid').length;
  return [
    table(columns, rows),
    '',
    ...failures,
    `${valid} of ${count(results.length, 'artifact')} passed. Level: ${levelWords[level]}.`,
    ...(level === 'full_checksum' ? [speed(totalBytes(results), elapsedMs)] : []),
    ...(results.some(isRefused) ? [advice] : []),
  ].join('\n');
}

function problemOf(result: Verification): string[] {
  const value = failureOf(result);
  return value === null ? [] : [`${shortKey(result.key)}: ${value.message} (${value.code})`];
}

function speed(bytes: number, elapsedMs: number): string {
  return `${formatSize(bytes)} in ${formatDuration(elapsedMs)} (${formatRate((bytes / elapsedMs) * 1000)}).`;
}

function isRefused({ status }: Verification): boolean {
  return status === 'invalid' || status === 'denied';
}

const advice =
  'Nothing was changed. An artifact that did not pass is built anew by `weightroom build --full`, or goes with `weightroom remove`.';
