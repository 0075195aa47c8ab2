/** The arguments that most commands take: the root of a store, and keys of artifacts in it. */
import { FailureError, type Outcome } from '../contract/failure.ts';
import { matchKey, shortestPrefix } from '../host/artifact-keys.ts';
import { missingArtifact, openStore, storeOutcome } from '../host/stores.ts';
import type { Domain } from '../store/domain.ts';
import type { PositionalSpec } from './arguments.ts';
import { wrongUse } from './wrong-use.ts';

export const rootArgument: PositionalSpec = { name: 'root', required: true };
export const keyArgument: PositionalSpec = { name: 'key', required: true };

/** The value, or the failure on its way to the sink. */
export function valueOf<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.value;
  throw new FailureError(outcome.failure);
}

export async function openedStore(root: string): Promise<Domain> {
  return valueOf(await openStore(root));
}

/**
 * The key that a whole key or a prefix means. A whole key need not be in the store. Throws FailureError: wrong
 * use for what is no key or means several, `local_miss` for a prefix of none.
 */
export async function meantKey(domain: Domain, text: string): Promise<{ key: string; present: boolean }> {
  const match = valueOf(await storeOutcome('the store cannot be listed', () => matchKey(domain, text)));
  switch (match.kind) {
    case 'one':
      return match;
    case 'malformed':
      throw wrongUse(
        `${JSON.stringify(text)} is not an artifact key: give its 64 hex digits, or at least the first ${shortestPrefix}.`,
      );
    case 'several':
      throw wrongUse(
        `${JSON.stringify(text)} begins ${match.keys.length} keys; give more digits of the one you mean:\n  ${match.keys.join('\n  ')}`,
        { keys: match.keys },
      );
    case 'none':
      throw new FailureError(
        missingArtifact(
          text.toLowerCase(),
          `nothing in ${domain.root} has a key that begins with ${JSON.stringify(text)}. \`weightroom ls\` lists what is there.`,
        ),
      );
  }
}
