/** Why entries can go, and what came of removing them, in words. */
import type {
  CleanupGroup,
  CleanupSummary,
  EntryStatus,
  PlannedEntry,
  PlannedGroup,
} from '../../src/contract/cleanup-schemas.ts';
import type { IconName } from '../parts/icons.ts';
import { countOf, sizeWords } from './bytes.ts';
import { shortKey } from './names.ts';
import type { DeskTone } from './tones.ts';

export interface GroupWords {
  readonly name: string;
  readonly meaning: string;
}

export const groupWords: Readonly<Record<CleanupGroup, GroupWords>> = {
  'dead-builds': {
    name: 'Leftovers of dead builds',
    meaning: 'Staged by builds that ended without clearing up. Nobody holds their build lock.',
  },
  'interrupted-cleanups': {
    name: 'Interrupted cleanups',
    meaning: 'Removals that did not come to their end.',
  },
  'half-moved': {
    name: 'Half-moved entries',
    meaning: 'Their publication or their move into quarantine was interrupted. They are not served.',
  },
  quarantined: {
    name: 'Quarantined',
    meaning: 'Taken out of service because something was wrong. One that is whole can be restored instead.',
  },
  'stray-markers': {
    name: 'Deny markers without an artifact',
    meaning: 'They stand against artifacts that are gone.',
  },
  denied: {
    name: 'Denied artifacts',
    meaning: 'Published, but they failed a check and are not served.',
  },
  superseded: {
    name: 'Superseded artifacts',
    meaning:
      'The same model, component, representation and layout is there at a newer revision or producer version.',
  },
  unused: { name: 'Unused artifacts', meaning: 'Nobody was seen to use them for a while.' },
};

export interface StatusWords {
  readonly words: string;
  readonly tone: DeskTone;
  readonly icon: IconName;
}

export const entryStatusWords: Readonly<Record<EntryStatus, StatusWords>> = {
  removed: { words: 'Removed', tone: 'good', icon: 'check' },
  gone: { words: 'Was gone already', tone: 'quiet', icon: 'information' },
  changed: { words: 'Changed: it stays', tone: 'warning', icon: 'warning' },
  'in-use': { words: 'In use: it stays', tone: 'warning', icon: 'lock' },
  refused: { words: 'Can’t be removed', tone: 'bad', icon: 'failure' },
  failed: { words: 'Failed', tone: 'bad', icon: 'failure' },
};

/** `tmp/3f9a1c…`: its place and the beginning of its key. */
export function shortEntry({ place, key }: Pick<PlannedEntry, 'place' | 'key'>): string {
  return `${place}/${shortKey(key)}`;
}

/** The same for one that is known by its id alone. */
export function shortId(id: string): string {
  const [place = '', name = ''] = id.split('/');
  return `${place}/${shortKey(name)}`;
}

/** What fits a group, whether it is asked for or not. */
export function fittingWords({ fitting, unavailable }: PlannedGroup): string {
  if (unavailable !== null) return 'not offered';
  if (fitting === null) return 'counted when it is on';
  return fitting.entries === 0
    ? 'none'
    : `${countOf(fitting.entries, 'entry', 'entries')} · ${sizeWords(fitting.bytes)}`;
}

/** What a cleanup came to, in one sentence or two. */
export function summaryWords({ counts, removedBytes, isCancelled, entriesLeft }: CleanupSummary): string {
  const stayed = counts.changed + counts['in-use'] + counts.refused + counts.failed;
  return [
    `${countOf(counts.removed, 'entry', 'entries')} removed: ${sizeWords(removedBytes)}.`,
    ...(stayed > 0 ? [`${countOf(stayed, 'entry', 'entries')} stayed; each line says why.`] : []),
    ...(isCancelled ? [`Stopped with ${countOf(entriesLeft, 'entry', 'entries')} to go.`] : []),
  ].join(' ');
}

/** What the disk has more of now, as far as it can be told. */
export function gainWords({ gainedBytes, unlinkedBytes }: CleanupSummary): string {
  if (gainedBytes === null) return 'What the file system gained could not be measured.';
  const gained = gainedBytes >= 0 ? sizeWords(gainedBytes) : `−${sizeWords(-gainedBytes)}`;
  return `Of ${sizeWords(unlinkedBytes)} on the disk the file system gained ${gained}, what others wrote meanwhile included.`;
}
