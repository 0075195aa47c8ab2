/**
 * Opening and making stores for people: the store engine's own rules, the places that are protected, and
 * system errors told as failures. What the desktop app and the command line both go through.
 */
import { isSystemError } from '#native';
import { failed, failure, outcomeOf, type Outcome } from '../contract/failure.ts';
import {
  createDomain,
  openDomain,
  resolveRoot,
  type CreatedDomain,
  type Domain,
  type DomainRequest,
} from '../store/domain.ts';
import { storageFailure } from '../store/faults.ts';
import { homeOf, type Environment } from './default-paths.ts';
import { installationFolder, whyProtected } from './protected-roots.ts';

export async function openStore(root: string): Promise<Outcome<Domain>> {
  return await openDomain(root);
}

/** Like a worker's start with this policy, but never in a protected place. */
export async function createStore(request: DomainRequest, env: Environment): Promise<Outcome<CreatedDomain>> {
  const root = await outcomeOf(() => resolveRoot(request.root));
  if (!root.ok) return root;
  const refusal = whyProtected(root.value, { home: homeOf(env), ownFolders: [installationFolder] });
  return refusal === null ? await createDomain(request) : failed(refusal);
}

/** What a serialized store means for other programs: said wherever one is made. */
export const serializedNotice =
  'Builds in this store are admitted one at a time. Workers that do not know admission will refuse to start on it, instead of bypassing it.';

/** Work on a store whose system errors (no permission, a full or broken disk) are failures and not bugs. */
export async function storeOutcome<T>(what: string, work: () => Promise<T> | T): Promise<Outcome<T>> {
  try {
    return await outcomeOf(work);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    if (error.code === 'EACCES' || error.code === 'EPERM') {
      return failed({ ...storageFailure(error, what), retryable: false });
    }
    return failed(storageFailure(error, what));
  }
}

/** The failure of a store that has nothing under a key. */
export function missingArtifact(key: string, message: string): ReturnType<typeof failure> {
  return failure('lookup', 'local_miss', message, { details: { key } });
}
