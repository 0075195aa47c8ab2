/**
 * Which files of a folder are the checkpoint: one .safetensors file, or the shards of an index. The default
 * names of the Hugging Face libraries win; where they are absent and several could be meant, nothing is
 * guessed: the candidates are named and the caller gives one of them as the path.
 */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isSystemError } from '#native';
import { compareCodePoints } from '../store/canonical-json.ts';
import { problem, systemProblem, type CheckpointProblem } from './checkpoint-problem.ts';
import { indexSuffix, readWeightIndex, weightsSuffix } from './weight-index.ts';

export type Selection =
  | { readonly kind: 'index'; readonly folder: string; readonly name: string; readonly beside: string[] }
  | { readonly kind: 'file'; readonly folder: string; readonly name: string; readonly beside: string[] }
  | { readonly kind: 'none'; readonly problem: CheckpointProblem };

const otherWeights = /\.(bin|pt|pth|ckpt|h5|msgpack|gguf|npz)$/;
const shardCount = /-\d{5}-of-(\d{5})\.safetensors$/;

/** `beside` lists the folder's .safetensors files that may turn out not to count. */
export async function selectWeights(path: string): Promise<Selection> {
  const absolute = resolve(path);
  try {
    const found = await stat(absolute);
    if (found.isDirectory()) return await selectInFolder(absolute, await names(absolute));
    if (found.isFile()) return await selectFile(dirname(absolute), basename(absolute));
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return none(systemProblem(null, absolute, error));
  }
  return none(
    problem(
      'not-a-regular-file',
      null,
      `${absolute} is neither a folder nor a regular file. Give a model's folder.`,
    ),
  );
}

function none(why: CheckpointProblem): Selection {
  return { kind: 'none', problem: why };
}

async function names(folder: string): Promise<string[]> {
  return (await readdir(folder)).sort(compareCodePoints);
}

async function selectFile(folder: string, name: string): Promise<Selection> {
  if (name.endsWith(indexSuffix)) {
    return { kind: 'index', folder, name, beside: weightFiles(await names(folder)) };
  }
  if (!name.endsWith(weightsSuffix)) {
    return none(problem('not-safetensors', name, `${name} is no ${weightsSuffix} file. ${conversion}`));
  }
  const index = await indexThatLists(folder, name);
  if (index === null) return { kind: 'file', folder, name, beside: [] };
  return none(
    problem(
      'one-of-several-shards',
      name,
      `${name} is one of several shards that ${index} lists, so it is not the whole checkpoint. Give the folder or ${index} instead.`,
    ),
  );
}

async function indexThatLists(folder: string, name: string): Promise<string | null> {
  for (const candidate of (await names(folder)).filter((other) => other.endsWith(indexSuffix))) {
    const reading = await readWeightIndex(folder, candidate);
    if (!('index' in reading)) continue;
    const shards = new Set(reading.index.values());
    if (shards.size > 1 && shards.has(name)) return candidate;
  }
  return null;
}

function weightFiles(entries: readonly string[]): string[] {
  return entries.filter((name) => name.endsWith(weightsSuffix));
}

async function selectInFolder(folder: string, entries: readonly string[]): Promise<Selection> {
  const beside = weightFiles(entries);
  const indexes = entries.filter((name) => name.endsWith(indexSuffix));
  const preferred = ['model', 'diffusion_pytorch_model'];
  for (const stem of preferred) {
    const index = `${stem}${indexSuffix}`;
    if (indexes.includes(index)) return { kind: 'index', folder, name: index, beside };
    const single = `${stem}${weightsSuffix}`;
    if (beside.includes(single)) return { kind: 'file', folder, name: single, beside };
  }
  const [index, ...otherIndexes] = indexes;
  if (index !== undefined && otherIndexes.length === 0) return { kind: 'index', folder, name: index, beside };
  if (index !== undefined) return none(ambiguous(folder, indexes));
  const [single, ...otherFiles] = beside;
  if (single !== undefined && otherFiles.length === 0 && !isOneOfSeveral(single)) {
    return { kind: 'file', folder, name: single, beside };
  }
  if (beside.length > 0) {
    return none(beside.every(isOneOfSeveral) ? unindexed(beside) : ambiguous(folder, beside));
  }
  return none(await withoutWeights(folder, entries));
}

function isOneOfSeveral(name: string): boolean {
  return Number(shardCount.exec(name)?.[1] ?? 1) > 1;
}

function ambiguous(folder: string, candidates: readonly string[]): CheckpointProblem {
  return problem(
    'ambiguous',
    null,
    `${folder} holds several checkpoints: ${listed(candidates)}. Give the path of the one that is meant.`,
  );
}

function unindexed(shards: readonly string[]): CheckpointProblem {
  return problem(
    'missing',
    null,
    `${listed(shards)} ${shards.length === 1 ? 'is a shard' : 'are shards'}, but the index (*${indexSuffix}) that says what belongs together is not there. Download it from where the shards come from.`,
  );
}

const conversion =
  'Only safetensors are read, because other formats run code when they are opened. Convert the model where you trust it: load it with transformers or diffusers and call save_pretrained(folder), which writes safetensors.';

async function withoutWeights(folder: string, entries: readonly string[]): Promise<CheckpointProblem> {
  const others = entries.filter((name) => otherWeights.test(name));
  if (others.length > 0) {
    return problem('not-safetensors', null, `${folder} has only ${listed(others)}. ${conversion}`);
  }
  const below = await foldersWithWeights(folder, entries);
  const hint =
    below.length > 0
      ? `The weights lie below it: give one of ${listed(below)}.`
      : 'Give the folder that holds the .safetensors files.';
  return problem('no-weights', null, `${folder} holds no weights. ${hint}`);
}

/** One level of a diffusers pipeline's components, or the snapshots of a Hub cache folder. */
async function foldersWithWeights(folder: string, entries: readonly string[]): Promise<string[]> {
  const isHubCache = entries.includes('snapshots') && entries.includes('blobs');
  const parent = isHubCache ? join(folder, 'snapshots') : folder;
  const found: string[] = [];
  for (const name of isHubCache ? await names(parent) : entries) {
    try {
      const below = await readdir(join(parent, name));
      if (isHubCache || weightFiles(below).length > 0) found.push(isHubCache ? `snapshots/${name}` : name);
    } catch (error) {
      // What is no folder, or not ours to look into, is no hint either.
      if (!isSystemError(error)) throw error;
    }
  }
  return found;
}

const maxNamed = 8;

function listed(candidates: readonly string[]): string {
  const shown = candidates.slice(0, maxNamed).join(', ');
  return candidates.length > maxNamed ? `${shown} and ${candidates.length - maxNamed} more` : shown;
}
