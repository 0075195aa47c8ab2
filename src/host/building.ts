/**
 * One build on behalf of a person: the supervised build process, told in words as it goes, ended by a signal,
 * and looked after: what a cancelled build really left behind is read from the store and not assumed.
 */
import { join } from 'node:path';
import { native, isSystemError } from '#native';
import { startBuild, type BuildEvent } from '../production/build-supervisor.ts';
import type { BuildPhase, BuildRequest, BuildResult } from '../production/build-protocol.ts';
import { withDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import { holdersOfFile } from '../store/lock-holders.ts';
import { admissionLock } from '../store/paths.ts';

export interface BuildProgress {
  /** For people. */
  readonly phase: string;
  readonly doneBytes: number;
  /** 0 while there is nothing to count. */
  readonly totalBytes: number;
  readonly bytesPerSecond: number | null;
  readonly secondsLeft: number | null;
}

export interface BuildWatch {
  /** Cancels the build. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BuildProgress) => void;
  readonly onWarning: (message: string) => void;
}

export interface WatchedBuild {
  readonly result: BuildResult;
  /** Names below `tmp/` that this build staged and that are still there; null where that can't be read. */
  readonly leftBehind: readonly string[] | null;
}

/** Resolves when the build process is gone. Never rejects for anything that the build does. */
export async function buildArtifact(
  domain: Domain,
  request: Omit<BuildRequest, 'domain'>,
  { signal, onProgress, onWarning }: BuildWatch,
): Promise<WatchedBuild> {
  const onEvent = (event: BuildEvent): void => {
    if (event.type === 'warning') onWarning(event.message);
    else onProgress(progressOf(domain, event, running.pid));
  };
  const running = startBuild({ ...request, domain: domain.root }, { onEvent });
  const cancel = (): void => running.cancel();
  signal.addEventListener('abort', cancel);
  if (signal.aborted) cancel();
  try {
    const result = await running.result;
    return { result, leftBehind: await stagedBy(domain, running.pid) };
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

const phaseWords: Readonly<Record<BuildPhase, string>> = {
  inspecting: 'reading the checkpoint',
  fingerprinting: 'hashing the checkpoint',
  'looking-up': 'looking up the artifact',
  'waiting-for-admission': 'waiting for admission',
  'waiting-for-build-lock': 'waiting for the build lock',
  preparing: 'clearing the way',
  producing: 'writing',
  hashing: 'computing checksums',
  syncing: 'writing to disk',
  publishing: 'publishing',
};

function progressOf(
  domain: Domain,
  event: Exclude<BuildEvent, { type: 'warning' }>,
  builder: number | undefined,
): BuildProgress {
  if (event.type === 'progress') {
    const { phase, bytes, ...rates } = event;
    return { ...rates, phase: phaseWords[phase], doneBytes: bytes };
  }
  const who = event.phase === 'waiting-for-admission' ? otherHolder(domain, builder) : '';
  const phase = `${phaseWords[event.phase]}${who}`;
  return { phase, doneBytes: 0, totalBytes: 0, bytesPerSecond: null, secondsLeft: null };
}

/** Who else holds admission, as words that follow a phase; empty where nobody can be seen. */
export function otherHolder({ root }: Domain, builder: number | undefined): string {
  const holder = holdersOfFile(join(root, 'locks', admissionLock)).find(({ pid }) => pid !== builder);
  return holder === undefined ? '' : `, held by process ${holder.pid} (${holder.command})`;
}

/** Names below `tmp/` that the build process staged and that are there; null where that can't be read. */
export async function stagedBy(domain: Domain, pid: number | undefined): Promise<string[] | null> {
  if (pid === undefined) return [];
  try {
    const names = await withDirectories(domain.root, ({ tmp }) => native.readdir(tmp));
    return names.filter((name) => name.slice(64).startsWith(`.${pid}.`));
  } catch (error) {
    if (isSystemError(error)) return null;
    throw error;
  }
}
