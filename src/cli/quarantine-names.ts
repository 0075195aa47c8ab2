/** Finding the quarantined entry that somebody means: its name, or enough of the beginning to be unique. */
import { wrongUse } from './wrong-use.ts';

/** A name that is not there is passed on: the store says whether it is a name at all. */
export function meantName(word: string, present: readonly string[]): string {
  const matches = present.filter((name) => name.startsWith(word));
  if (matches.includes(word) || matches.length === 0 || word.length < 6) return word;
  if (matches.length === 1) return matches[0] as string;
  throw wrongUse(
    `${JSON.stringify(word)} begins ${matches.length} names; give more of the one you mean:\n  ${matches.join('\n  ')}`,
  );
}
