/** What a verification found, in words. */
import type { InventoryRow } from '../../src/contract/domain-schemas.ts';
import type { Verification } from '../../src/contract/artifact-schemas.ts';
import type { DeskTone } from './tones.ts';

type Status = Verification['status'];
type LastVerified = NonNullable<InventoryRow['lastVerified']>;

export const statusWords: Readonly<Record<Status, string>> = {
  valid: 'It is whole',
  invalid: 'It is damaged',
  denied: 'It is denied',
  missing: 'It is not there',
  busy: 'Somebody publishes or removes it right now',
  unreadable: 'The storage gave an error',
};

export const levelWords: Readonly<Record<Verification['level'], string>> = {
  full_checksum: 'Every byte',
  manifest_and_metadata: 'Manifest and metadata',
};

export function toneOf(status: Status): DeskTone {
  if (status === 'valid') return 'good';
  return status === 'busy' || status === 'missing' ? 'warning' : 'bad';
}

export function verificationWords({ status, level }: LastVerified): string {
  return `${statusWords[status]}. ${levelWords[level]} checked.`;
}
