/** The parts that JSON documents and texts of several commands share. */
import type { Domain } from '../store/domain.ts';
import type { ArtifactIdentity } from '../store/identity.ts';
import type { ValidationLevel } from '../store/lease.ts';
import type { JsonDocument } from './json-document.ts';
import { formatSize } from './sizes.ts';

export function domainDocument(domain: Domain): JsonDocument {
  return {
    root: domain.root,
    domain_uuid: domain.uuid,
    scope: domain.scope,
    domain_id: domain.domainId,
    storage_class: domain.storageClass,
    filesystem_type: domain.filesystemType,
    admission: domain.admission,
    policy_version: domain.policyVersion,
    max_artifact_bytes: domain.capacity.maxArtifactBytes,
    max_store_bytes: domain.capacity.maxStoreBytes,
    min_free_bytes: domain.capacity.minFreeBytes,
  };
}

export function domainFields(domain: Domain): (readonly [string, string])[] {
  const { maxArtifactBytes, maxStoreBytes, minFreeBytes } = domain.capacity;
  return [
    ['root', domain.root],
    ['domain id', `${domain.domainId} (scope ${domain.scope}, uuid ${domain.uuid})`],
    [
      'file system',
      `${domain.filesystemType}${domain.storageClass === 'tmpfs' ? ' (its bytes are host memory)' : ''}`,
    ],
    [
      'admission',
      domain.admission === 'serialized'
        ? 'serialized: one build at a time'
        : 'concurrent: builds of different keys side by side',
    ],
    ['store limit', limit(maxStoreBytes)],
    ['artifact limit', limit(maxArtifactBytes)],
    ['keep free', minFreeBytes === 0 ? 'nothing in particular' : formatSize(minFreeBytes)],
  ];
}

export function limit(bytes: number | null): string {
  return bytes === null ? 'no limit' : formatSize(bytes);
}

/** What tells artifacts apart for people, in words. */
export interface IdentitySummary {
  readonly model: string;
  readonly representation: string;
  readonly tensorParallel: string;
}

export function summaryOf(identity: ArtifactIdentity | null): IdentitySummary {
  if (identity === null) return { model: '?', representation: '?', tensorParallel: '?' };
  const { source, component, representation, layout } = identity.document;
  return {
    model: `${source.model_id} ${component.name}`,
    representation: `${representation.name} ${representation.dtype.replace(/^torch\./, '')}`,
    tensorParallel: `${layout.tensor_parallel_rank}/${layout.tensor_parallel_size}`,
  };
}

export function summaryDocument(identity: ArtifactIdentity | null): JsonDocument {
  const document = identity?.document ?? null;
  return {
    model_id: document?.source.model_id ?? null,
    revision: document?.source.revision ?? null,
    component: document?.component.name ?? null,
    representation: document?.representation.name ?? null,
    dtype: document?.representation.dtype ?? null,
    tensor_parallel_size: document?.layout.tensor_parallel_size ?? null,
    tensor_parallel_rank: document?.layout.tensor_parallel_rank ?? null,
    producer_id: document?.producer.producer_id ?? null,
  };
}

/** What a check of this level can and cannot see. */
export const levelWords: Readonly<Record<ValidationLevel, string>> = {
  manifest_and_metadata:
    'manifest and metadata only; payload bytes were not read, so a flipped bit in them goes unseen',
  full_checksum: 'full: every payload byte was hashed',
};

export function milliseconds(value: number): number {
  return Math.round(value * 10) / 10;
}

export function shortKey(key: string): string {
  return key.slice(0, 12);
}

export function count(number: number, singular: string, plural = `${singular}s`): string {
  return `${number} ${number === 1 ? singular : plural}`;
}
