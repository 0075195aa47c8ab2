/**
 * Which model and revision a checkpoint is, as far as its place and its configuration tell. Only names for
 * people and keys: what the bytes are is the fingerprint's to say.
 */
import { statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { weightsSuffix } from './weight-index.ts';
import type { Checkpoint } from './checkpoint.ts';

export interface Provenance {
  readonly modelId: string;
  readonly revision: string;
}

/** Null or missing: to be guessed. */
export interface GivenProvenance {
  readonly modelId?: string | null;
  readonly revision?: string | null;
}

export const unknownRevision = 'unknown';

/**
 * Each part as given, else from the Hub snapshot that the folder lies in, else (the model id only) from
 * config.json's `_name_or_path`, else from the folder's name.
 */
export function provenanceOf(checkpoint: Checkpoint, given: GivenProvenance = {}): Provenance {
  const snapshot = hubSnapshot(checkpoint.folder);
  return {
    modelId: given.modelId ?? snapshot?.modelId ?? configuredModelId(checkpoint) ?? placeName(checkpoint),
    revision: given.revision ?? snapshot?.revision ?? unknownRevision,
  };
}

/** `.../models--org--name/snapshots/<revision>[/component]`: the Hub allows no `--` within either name. */
const snapshotPath = /(?:^|\/)models--([^/]+)\/snapshots\/([^/]+)(?:\/|$)/;

function hubSnapshot(folder: string): Provenance | null {
  const match = snapshotPath.exec(folder);
  if (match === null) return null;
  const [, repository, revision] = match as unknown as [string, string, string];
  return { modelId: repository.replace('--', '/'), revision };
}

/** `name` or `organisation/name`, as the Hub allows them; `./out` and `/models/x` are places on a disk. */
const repositoryId = /^[A-Za-z0-9][\w.-]*(?:\/[A-Za-z0-9][\w.-]*)?$/;

function configuredModelId({ config }: Checkpoint): string | null {
  const name = config?.['_name_or_path'];
  return typeof name === 'string' && repositoryId.test(name) ? name : null;
}

/** File names that the libraries give to every model, and that say nothing about this one. */
const ordinaryStem = /^(model|diffusion_pytorch_model|pytorch_model|consolidated|adapter_model)\b/;

function placeName({ path, folder }: Checkpoint): string {
  const stem = basename(path, weightsSuffix);
  if (path.endsWith(weightsSuffix) && path !== folder && !ordinaryStem.test(stem)) return stem;
  // A component of a diffusers pipeline is called `transformer` or `vae`; the pipeline's folder says more.
  const pipeline = dirname(folder);
  return basename(isFile(join(pipeline, 'model_index.json')) ? pipeline : folder) || 'root';
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
