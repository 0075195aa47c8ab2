/**
 * What a checkpoint holds and what could be made of it, as plain values that travel between processes: for
 * showing before anything is built.
 */
import type { Failure } from '../contract/failure.ts';
import { planArtifact, type ArtifactPlan } from './artifact-plan.ts';
import type { CheckpointProblem } from './checkpoint-problem.ts';
import { inspectCheckpoint, type Checkpoint } from './checkpoint.ts';
import { provenanceOf } from './provenance.ts';
import { representationNames, type RepresentationName } from './representation.ts';

export interface PlanFindings {
  /** Of most bytes, as torch prints it. */
  readonly dtype: string;
  readonly payloadFiles: number;
  readonly tensorBytes: number;
  /** Never less than what the artifact will have, headers and documents included. */
  readonly artifactBytes: number;
}

export interface Offer {
  readonly representation: RepresentationName;
  /** One of the two is null. */
  readonly plan: PlanFindings | null;
  readonly failure: Failure | null;
}

export interface FoundCheckpoint {
  readonly folder: string;
  readonly indexFile: string | null;
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly tensors: number;
  readonly bytes: number;
  /** By torch's name of the dtype, the largest first. */
  readonly bytesByDtype: readonly { readonly dtype: string; readonly bytes: number }[];
  readonly ignoredFiles: readonly string[];
  readonly ignoredTensors: number;
  readonly modelId: string;
  readonly revision: string;
  readonly offers: readonly Offer[];
}

export interface CheckpointFindings {
  /** The first ones. */
  readonly problems: readonly CheckpointProblem[];
  readonly problemCount: number;
  /** Null where there is a problem. */
  readonly found: FoundCheckpoint | null;
}

/** More than this are not read by anybody, and a wrong index can make one for every tensor. */
const mostProblems = 100;
const mostIgnored = 100;

/** Never throws for what the checkpoint is or is not. */
export async function findCheckpoint(path: string): Promise<CheckpointFindings> {
  const inspection = await inspectCheckpoint(path);
  if (!inspection.ok) {
    const { problems } = inspection;
    return { problems: problems.slice(0, mostProblems), problemCount: problems.length, found: null };
  }
  return { problems: [], problemCount: 0, found: foundIn(inspection.checkpoint) };
}

function foundIn(checkpoint: Checkpoint): FoundCheckpoint {
  const { folder, indexFile, files, tensors, totalBytes, bytesByDtype, ignored } = checkpoint;
  return {
    folder,
    indexFile,
    files: files.map(({ name, sizeBytes }) => ({ name, bytes: sizeBytes })),
    tensors: tensors.length,
    bytes: totalBytes,
    bytesByDtype: [...bytesByDtype]
      .map(([dtype, bytes]) => ({ dtype, bytes }))
      .sort((a, b) => b.bytes - a.bytes),
    ignoredFiles: ignored.files.slice(0, mostIgnored),
    ignoredTensors: ignored.tensors.length,
    ...provenanceOf(checkpoint),
    offers: representationNames.map((representation) => offerOf(checkpoint, representation)),
  };
}

function offerOf(checkpoint: Checkpoint, representation: RepresentationName): Offer {
  const planned = planArtifact(checkpoint, representation);
  if (!planned.ok) return { representation, plan: null, failure: planned.failure };
  return { representation, plan: planFindings(planned.value), failure: null };
}

function planFindings({ dtype, payloads, tensorBytes, manifestBytes }: ArtifactPlan): PlanFindings {
  // A header says less of each tensor than the manifest does.
  const artifactBytes = tensorBytes + 2 * manifestBytes;
  return { dtype, payloadFiles: payloads.length, tensorBytes, artifactBytes };
}
