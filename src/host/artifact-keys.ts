/** Finding the key that somebody means: all of its 64 hex digits, or enough of the first ones to be unique. */
import { native } from '#native';
import { withDirectories } from '../store/directories.ts';
import type { Domain } from '../store/domain.ts';
import { isKey, keyOfName } from '../store/paths.ts';

export const shortestPrefix = 6;

export type KeyMatch =
  | { readonly kind: 'one'; readonly key: string; readonly present: boolean }
  | { readonly kind: 'several'; readonly keys: readonly string[] }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

/** Looks in every state: ready, denied, quarantined and temporary. A whole key need not be there. */
export async function matchKey(domain: Domain, text: string): Promise<KeyMatch> {
  const prefix = text.toLowerCase();
  if (!/^[0-9a-f]+$/.test(prefix) || prefix.length < shortestPrefix || prefix.length > 64) {
    return { kind: 'malformed' };
  }
  const keys = await keysWith(domain, prefix);
  if (isKey(prefix)) return { kind: 'one', key: prefix, present: keys.length > 0 };
  const [key, ...others] = keys;
  if (key === undefined) return { kind: 'none' };
  return others.length === 0 ? { kind: 'one', key, present: true } : { kind: 'several', keys };
}

async function keysWith(domain: Domain, prefix: string): Promise<string[]> {
  return await withDirectories(domain.root, ({ artifacts, deny, quarantine, tmp }) => {
    const names = [artifacts, deny, quarantine, tmp].flatMap((directory) => native.readdir(directory));
    const keys = names.map(keyOfName).filter((key) => key !== null);
    return [...new Set(keys)].filter((key) => key.startsWith(prefix)).sort();
  });
}
