/** Failure codes in words: what each is called, and the next step where the host's message has none. */
import type { FailureCode, Stage } from '../../src/contract/failure.ts';

export const codeTitles: Readonly<Record<FailureCode, string>> = {
  invalid_config: 'What was asked for is not possible',
  cohort_policy_mismatch: 'The workers of this group disagree about the store',
  domain_policy_mismatch: 'The store has another policy',
  domain_unavailable: 'The store is not available',
  storage_class_mismatch: 'The store is on the wrong kind of storage',
  numa_placement_invalid: 'The placement does not fit this machine',
  local_miss: 'The store has no such artifact',
  artifact_denied: 'This artifact is denied',
  active_build_timeout: 'Somebody else’s build took too long',
  manifest_incompatible: 'Made by another version',
  manifest_corrupt: 'The manifest is damaged',
  checksum_mismatch: 'The bytes are not what the manifest says',
  identity_collision: 'Two different artifacts have one key',
  remote_miss: 'Not found remotely',
  remote_unavailable: 'The remote store does not answer',
  remote_auth_failed: 'The remote store refused',
  remote_timeout: 'The remote store took too long',
  remote_artifact_invalid: 'What the remote store gave is damaged',
  producer_unavailable: 'The checkpoint can’t be used',
  producer_unsupported: 'This can’t be built from the checkpoint',
  producer_failed: 'The build process failed',
  production_timeout: 'The build took too long',
  artifact_too_large: 'The artifact is larger than the store allows',
  store_limit_exceeded: 'The store’s limit would be passed',
  insufficient_capacity: 'Not enough free space would be left',
  enospc: 'The disk is full',
  restorer_unavailable: 'Nothing here can load it',
  restore_preflight_failed: 'It can’t be loaded as it is',
  restore_commit_failed: 'Loading it failed half way',
  active_lease: 'Somebody uses it',
  publication_failed: 'It could not be published',
  quarantine_failed: 'It could not be moved aside',
  canonical_source_failed: 'The original weights could not be loaded',
  unsupported: 'This is not supported here',
};

export const stageWords: Readonly<Record<Stage, string>> = {
  configuration: 'reading the configuration',
  domain: 'opening the store',
  lookup: 'looking it up',
  validation: 'checking it',
  remote: 'asking the remote store',
  production: 'building it',
  capacity: 'checking the space',
  restoration: 'loading it',
  lifecycle: 'managing what is stored',
  canonical_loading: 'loading the original weights',
};

/** What to do here, where the host's message, which says what, why and what to do, can't know of a page. */
export const nextSteps: Partial<Readonly<Record<FailureCode, string>>> = {
  artifact_denied: 'Build it again: that replaces what was denied.',
  checksum_mismatch: 'Remove it and build it again.',
  manifest_corrupt: 'Remove it and build it again.',
  active_lease: 'Wait until it is no longer used, or end who uses it, then retry.',
  active_build_timeout: 'See on Builds who builds it, then retry.',
  producer_unsupported: 'Choose another representation.',
  production_timeout: 'Retry when the machine is less busy.',
  producer_failed: 'Retry. Where it fails again, copy the details and report them.',
};
