/**
 * The identity of what this producer makes of a checkpoint. Everything that decides a produced byte is in it,
 * the versions of the algorithms included, so that one key never stands for two contents.
 * Source: host-weight store specification, section 3.
 */
import { ArtifactIdentity, canonicalDigest } from '../store/identity.ts';
import { payloadSplitBytes, type ArtifactPlan } from './artifact-plan.ts';
import type { Provenance } from './provenance.ts';
import { castRuleVersion } from './representation.ts';

export const manifestSchema = 'weightroom-checkpoint-manifest-v1';
export const restorerSchema = 'weightroom-tensors-v1';
export const defaultComponent = 'model';

/** Names what the produced bytes depend on besides the source; a change to any of it makes new keys. */
const implementation = {
  cast_rule: castRuleVersion,
  payload_split: `greedy-at-tensor-boundaries-${payloadSplitBytes}`,
  tensor_order: 'code-point-v1',
  tensor_role: 'parameter-weight-v1',
};

export interface IdentityParts {
  readonly provenance: Provenance;
  /** Lower-case hex, from sourceFingerprint(). */
  readonly fingerprint: string;
  readonly component: string;
  readonly plan: ArtifactPlan;
}

export function checkpointIdentity({
  provenance,
  fingerprint,
  component,
  plan,
}: IdentityParts): ArtifactIdentity {
  return ArtifactIdentity.of({
    schema_version: 1,
    source: { model_id: provenance.modelId, revision: provenance.revision, fingerprint, metadata: {} },
    component: { name: component, ownership: 'full', metadata: {} },
    representation: { name: plan.representation, dtype: plan.dtype, metadata: {} },
    layout: {
      name: 'replicated',
      tensor_parallel_size: 1,
      tensor_parallel_rank: 0,
      sequence_parallel_size: 1,
      sequence_parallel_backend: 'none',
      metadata: {},
    },
    adaptation: { kind: 'base', fingerprint: null, metadata: {} },
    producer: {
      producer_id: 'weightroom.checkpoint',
      version: '1',
      implementation_fingerprint: canonicalDigest(implementation),
      manifest_schema: manifestSchema,
      restorer_schema: restorerSchema,
    },
  });
}
