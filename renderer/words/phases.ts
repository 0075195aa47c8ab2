/** The phases of a build, and which of them count as waiting. */
import type { Build, BuildPhase } from '../../src/contract/build-schemas.ts';
import type { DeskTone } from './tones.ts';

export const phaseWords: Readonly<Record<BuildPhase, string>> = {
  'making-sample': 'making the sample checkpoint',
  starting: 'starting',
  inspecting: 'inspecting the checkpoint',
  fingerprinting: 'fingerprinting the checkpoint',
  'looking-up': 'looking it up in the store',
  'waiting-for-admission': 'waiting for admission',
  'waiting-for-build-lock': 'waiting for another build of the same artifact',
  preparing: 'preparing',
  producing: 'producing',
  hashing: 'computing checksums',
  syncing: 'writing through to the disk',
  publishing: 'publishing',
};

export type PhaseGroup = 'preparing' | 'waiting' | 'producing' | 'publishing';

export const groupWords: Readonly<Record<PhaseGroup, string>> = {
  preparing: 'Preparing',
  waiting: 'Waiting',
  producing: 'Producing and hashing',
  publishing: 'Publishing',
};

export function groupOf(phase: BuildPhase): PhaseGroup {
  switch (phase) {
    case 'waiting-for-admission':
    case 'waiting-for-build-lock':
      return 'waiting';
    case 'producing':
    case 'hashing':
      return 'producing';
    case 'syncing':
    case 'publishing':
      return 'publishing';
    default:
      return 'preparing';
  }
}

export interface Outcome {
  readonly words: string;
  readonly tone: DeskTone;
}

export function outcomeOf(build: Build): Outcome {
  const { result } = build;
  if (result === null) {
    const phase = build.phases.at(-1)?.phase ?? 'starting';
    const words = build.cancelling ? 'cancelling' : groupOf(phase) === 'waiting' ? 'waiting' : 'running';
    return { words, tone: 'accent' };
  }
  switch (result.status) {
    case 'built':
      return { words: 'built', tone: 'good' };
    case 'hit':
      return { words: 'was there already', tone: 'good' };
    case 'joined':
      return { words: 'built by another process meanwhile', tone: 'good' };
    case 'cancelled':
      return { words: 'cancelled', tone: 'quiet' };
    case 'timeout':
      return { words: 'waited too long', tone: 'bad' };
    case 'failed':
      return { words: 'failed', tone: 'bad' };
  }
}

/** What a person calls a build. */
export function nameOfBuild(build: Build): string {
  if (build.modelId !== null) return build.modelId;
  if (build.kind === 'sample') return 'Sample';
  return build.checkpoint?.split('/').filter(Boolean).at(-1) ?? 'Build';
}
