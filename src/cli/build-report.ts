/** How a build ended: as a document, in words, and as an exit code. What `build` and `sample` share. */
import { failure, type Failure } from '../contract/failure.ts';
import type { BuildResult } from '../production/build-protocol.ts';
import { formatDuration } from './durations.ts';
import type { JsonDocument } from './json-document.ts';
import { formatRate, formatSize } from './sizes.ts';

/** The parts of a result that are reported. */
export type BuildEnd = Pick<BuildResult, 'status' | 'key' | 'artifactBytes' | 'elapsedMs' | 'failure'>;

/** `status` is one of hit, built, joined, timeout, failed; what was cancelled has failed, and its failure says so. */
export function buildDocument({
  status,
  key,
  artifactBytes,
  elapsedMs,
  failure: reason,
}: BuildEnd): JsonDocument {
  return {
    status: status === 'cancelled' ? 'failed' : status,
    key,
    artifact_bytes: artifactBytes,
    elapsed_ms: elapsedMs,
    failure: reason,
  };
}

export function endedBefore(reason: Failure): BuildEnd {
  return { status: 'failed', key: null, artifactBytes: null, elapsedMs: 0, failure: reason };
}

/** What there is to tell of a build that was interrupted. `leftBehind`: names below `tmp/`. */
export function cancelledWords(leftBehind: readonly string[] | null): string {
  const cancelled = 'The build was cancelled.';
  if (leftBehind === null)
    return `${cancelled} Whether something of it is left in the store cannot be read now.`;
  if (leftBehind.length === 0) return `${cancelled} Nothing of it is left behind in the store.`;
  return `${cancelled} It could not clean up: tmp/${leftBehind.join(', tmp/')} is left. The next build of the same artifact removes it.`;
}

export function interruptedFailure(message: string): Failure {
  return failure('production', 'producer_failed', message, {
    retryable: true,
    details: { interrupted: true },
  });
}

const verbs = {
  hit: 'The artifact was there already.',
  joined: 'Another process built the artifact in the meantime.',
} as const;

/** For an artifact that is there now. */
export function builtText({ status, key, artifactBytes, elapsedMs }: BuildEnd): string {
  const size = formatSize(artifactBytes ?? 0);
  const rate =
    artifactBytes === null ? '' : ` (${formatRate((artifactBytes / Math.max(elapsedMs, 1)) * 1000)})`;
  const what =
    status === 'hit' || status === 'joined'
      ? verbs[status]
      : `Built the artifact in ${formatDuration(elapsedMs)}${rate}.`;
  return `${what}\n  key   ${key}\n  size  ${size}`;
}

/** Said plainly wherever something of ours was built. */
export const whoHitsIt =
  "A key holds its producer, so this artifact is a hit for loaders that ask for exactly this identity. vLLM-Omni's own loaders ask for their own: those artifacts are made by a run of vLLM-Omni.";
