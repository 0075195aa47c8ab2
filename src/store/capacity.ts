/**
 * Whether more bytes fit: the domain's own limits against everything below its root, and the space that
 * must stay free. Source: host-weight store specification, section 6, Capacity.
 */
import { statfsSync } from 'node:fs';
import { native } from '#native';
import { failure, FailureError, type FailureCode } from '../contract/failure.ts';
import { formatBytes } from '../contract/bytes.ts';
import { withDirectories } from './directories.ts';
import type { Domain } from './domain.ts';

/** Bytes that an ordinary user can still write to the file system of `path`. */
export function freeBytes(path: string): number {
  const stat = statfsSync(path);
  return stat.bavail * stat.bsize;
}

/** Sum of st_size over all regular files of the store, whatever state they are in. */
export async function storeBytes(domain: Domain): Promise<number> {
  return await withDirectories(domain.root, async ({ root }) => await native.treeBytes(root));
}

/**
 * Throws FailureError (capacity, retryable) where an artifact of `projectedBytes` would be too large, or
 * `additionalBytes` more would pass the store's limit or eat into the space to keep free.
 */
export async function checkCapacity(
  domain: Domain,
  projectedBytes: number,
  additionalBytes: number,
): Promise<void> {
  const { maxArtifactBytes, maxStoreBytes, minFreeBytes } = domain.capacity;
  if (maxArtifactBytes !== null && projectedBytes > maxArtifactBytes) {
    throw full(
      'artifact_too_large',
      `the artifact would take ${formatBytes(projectedBytes)}; this store allows ${formatBytes(maxArtifactBytes)} for one, and its policy never changes. Use a store with a larger limit.`,
      { projected_bytes: projectedBytes, max_artifact_bytes: maxArtifactBytes },
    );
  }
  if (maxStoreBytes !== null) {
    const used = await storeBytes(domain);
    if (used + additionalBytes > maxStoreBytes) {
      throw full(
        'store_limit_exceeded',
        `the store holds ${formatBytes(used)} and ${formatBytes(additionalBytes)} more would pass its limit of ${formatBytes(maxStoreBytes)}. Remove artifacts or quarantined entries that are no longer needed, or use a store with a larger limit.`,
        { store_bytes: used, additional_bytes: additionalBytes, max_store_bytes: maxStoreBytes },
      );
    }
  }
  const free = freeBytes(domain.root);
  if (free - additionalBytes < minFreeBytes) {
    throw full(
      'insufficient_capacity',
      `${formatBytes(free)} are free on the disk; writing ${formatBytes(additionalBytes)} more would leave less than the ${formatBytes(minFreeBytes)} that this store keeps free. Make room on the disk.`,
      { free_bytes: free, additional_bytes: additionalBytes, min_free_bytes: minFreeBytes },
    );
  }
}

function full(code: FailureCode, message: string, details: Record<string, number>): FailureError {
  return new FailureError(failure('capacity', code, message, { retryable: true, details }));
}
