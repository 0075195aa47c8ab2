/** Builds in the activity log, in words. */
import { basename } from 'node:path';
import type { Build } from '../contract/build-schemas.ts';
import type { Happening } from './activity-log.ts';

export function buildStarted({ id, kind, root, checkpoint }: Build): Happening {
  const what = kind === 'sample' ? 'the sample' : basename(checkpoint ?? '');
  return { kind: 'build-started', message: `Started building ${what} into ${root}.`, root, buildId: id };
}

export function buildEnded(build: Build): Happening {
  const { id, root, result } = build;
  const failed = result?.failure ?? null;
  return {
    kind: 'build-ended',
    severity: failed === null ? 'information' : 'failure',
    message: endWords(build),
    root,
    key: result?.key ?? null,
    buildId: id,
    failure: failed,
  };
}

function endWords({ kind, checkpoint, modelId, result }: Build): string {
  const what = modelId ?? (kind === 'sample' ? 'the sample' : basename(checkpoint ?? ''));
  const key = result?.key?.slice(0, 12) ?? '';
  switch (result?.status) {
    case 'built':
      return `Built ${what} as ${key}.`;
    case 'hit':
      return `${what} was there already as ${key}.`;
    case 'joined':
      return `${what} was built by another process meanwhile, as ${key}.`;
    case 'cancelled':
      return `The build of ${what} was cancelled.${leftWords(result.leftBehind)}`;
    case 'timeout':
    case 'failed':
      return `The build of ${what} did not come to its end: ${result.failure?.message ?? 'it is not known why'}`;
    case undefined:
      return `The build of ${what} goes on.`;
  }
}

function leftWords(names: readonly string[]): string {
  if (names.length === 0) return ' Nothing of it is left.';
  return ` It left ${names.length === 1 ? 'an entry' : `${names.length} entries`} below tmp/, which its next build removes.`;
}
