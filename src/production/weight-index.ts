/**
 * The index of a sharded checkpoint (`*.safetensors.index.json`): which tensor lies in which shard. It is
 * the list of what counts. A file name in it is input from outside: it may not lead out of the folder.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { isSystemError } from '#native';
import { isJsonObject, JsonError, type JsonObject, type JsonValue } from '../store/canonical-json.ts';
import { parseJsonBytes } from '../store/json-parser.ts';
import { maxMetadataBytes } from '../store/paths.ts';
import { problem, systemProblem, type CheckpointProblem } from './checkpoint-problem.ts';
import { isLfsPointer, lfsProblem } from './weight-file.ts';

export const indexSuffix = '.safetensors.index.json';
export const weightsSuffix = '.safetensors';

/** Tensor name to shard, both as the index spells them but for a leading `./` of the shard. */
export type WeightIndex = ReadonlyMap<string, string>;

export type IndexReading =
  { readonly index: WeightIndex } | { readonly problems: readonly CheckpointProblem[] };

export async function readWeightIndex(folder: string, name: string): Promise<IndexReading> {
  let bytes: Buffer | null;
  try {
    bytes = await readBounded(join(folder, name));
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return { problems: [systemProblem(name, name, error)] };
  }
  if (bytes === null) {
    return broken(
      name,
      `is not a regular file of at most ${maxMetadataBytes} bytes; a larger one would name more tensors than an artifact can list`,
    );
  }
  if (isLfsPointer(bytes)) return { problems: [lfsProblem(name, bytes)] };
  try {
    const document = parseJsonBytes(bytes, { refuseDuplicates: true });
    const map = isJsonObject(document) ? document['weight_map'] : undefined;
    if (!isJsonObject(map)) return broken(name, 'has no "weight_map" object');
    return readWeightMap(name, map);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return broken(name, `is not valid JSON: ${error.message}`);
  }
}

/** Null where it is not a regular file or is too large to be an index that a build could use. */
export async function readBounded(path: string): Promise<Buffer | null> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    return stat.isFile() && stat.size <= maxMetadataBytes ? await file.readFile() : null;
  } finally {
    await file.close();
  }
}

function broken(name: string, what: string): IndexReading {
  return {
    problems: [problem('index-broken', name, `${name} ${what}. Download the index again.`)],
  };
}

function readWeightMap(name: string, map: JsonObject): IndexReading {
  const index = new Map<string, string>();
  const refused = new Map<string, CheckpointProblem>();
  for (const [tensor, value] of Object.entries(map)) {
    const shard = typeof value === 'string' ? posix.normalize(value) : null;
    const reason = shard === null ? notText(name, tensor) : refuseShard(name, shard, value);
    if (shard === null || reason !== null) refused.set(JSON.stringify(value), reason as CheckpointProblem);
    else index.set(tensor, shard);
  }
  if (refused.size > 0) return { problems: [...refused.values()] };
  return index.size > 0 ? { index } : broken(name, 'names no tensor');
}

function notText(name: string, tensor: string): CheckpointProblem {
  return problem(
    'index-broken',
    name,
    `${name} gives no file name for the tensor ${JSON.stringify(tensor)}. Download the index again.`,
    tensor,
  );
}

function refuseShard(
  name: string,
  shard: string,
  asWritten: JsonValue | undefined,
): CheckpointProblem | null {
  const quoted = JSON.stringify(asWritten);
  if (shard.startsWith('/') || shard === '..' || shard.startsWith('../') || shard.includes('\0')) {
    return problem(
      'index-unsafe-path',
      name,
      `${name} names the file ${quoted}, which leads out of the checkpoint's folder. Nothing is read from there: an index may only name files beside it.`,
    );
  }
  if (shard.endsWith(weightsSuffix)) return null;
  return problem(
    'index-broken',
    name,
    `${name} names the file ${quoted}; only ${weightsSuffix} files are read. It is the index of other weights: use the safetensors version of the model.`,
  );
}
