/**
 * A Hugging Face checkpoint on disk, inspected: which files and tensors count, and what is wrong, all of it
 * at once. Only headers are read. Nothing is built from a checkpoint that has a problem.
 *
 * Where there is an index it is the list of what counts: tensors and files that it does not name are listed
 * as ignored, and a tensor must lie in the shard that the index names, and in no other.
 */
import { join, resolve } from 'node:path';
import { isSystemError } from '#native';
import { compareCodePoints, isJsonObject, JsonError, type JsonObject } from '../store/canonical-json.ts';
import { dtypeOfSafetensors, dtypes, type Dtype } from '../store/dtypes.ts';
import { parseJsonBytes } from '../store/json-parser.ts';
import type { HeaderTensor, PayloadHeader } from '../store/safetensors.ts';
import { problem, type CheckpointProblem } from './checkpoint-problem.ts';
import type { SourceFile } from './source-file.ts';
import { readWeightFile } from './weight-file.ts';
import { readBounded, readWeightIndex, type WeightIndex } from './weight-index.ts';
import { selectWeights } from './weight-selection.ts';

export interface CheckpointTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly file: SourceFile;
  /** From the first byte of the file. Not aligned to anything. */
  readonly offset: number;
  readonly nbytes: number;
}

export interface IgnoredTensor {
  readonly file: string;
  readonly name: string;
}

export interface Checkpoint {
  /** Absolute: what was asked for. */
  readonly path: string;
  /** Absolute: where the files lie. */
  readonly folder: string;
  readonly indexFile: string | null;
  /** Sorted by name. */
  readonly files: readonly SourceFile[];
  /** Sorted by name. */
  readonly tensors: readonly CheckpointTensor[];
  /** Of the tensors that count. */
  readonly totalBytes: number;
  /** By torch's name of the dtype. */
  readonly bytesByDtype: ReadonlyMap<string, number>;
  readonly ignored: { readonly files: readonly string[]; readonly tensors: readonly IgnoredTensor[] };
  /** config.json, where there is one that parses. */
  readonly config: JsonObject | null;
}

export type Inspection =
  | { readonly ok: true; readonly checkpoint: Checkpoint }
  | { readonly ok: false; readonly problems: readonly CheckpointProblem[] };

interface Shard {
  readonly name: string;
  /** Null: the file has a problem of its own, and says nothing about its tensors. */
  readonly read: { readonly file: SourceFile; readonly header: PayloadHeader } | null;
}

/** `path` is a checkpoint's folder, its index or its only file. Throws only the signal's reason. */
export async function inspectCheckpoint(path: string, signal?: AbortSignal): Promise<Inspection> {
  const selection = await selectWeights(path);
  if (selection.kind === 'none') return { ok: false, problems: [selection.problem] };
  const { folder, name, beside } = selection;

  let index: WeightIndex | null = null;
  if (selection.kind === 'index') {
    const reading = await readWeightIndex(folder, name);
    if ('problems' in reading) return { ok: false, problems: reading.problems };
    index = reading.index;
  }
  const named = index === null ? [name] : [...new Set(index.values())].sort(compareCodePoints);
  const problems: CheckpointProblem[] = [];
  const shards: Shard[] = [];
  for (const shard of named) {
    signal?.throwIfAborted();
    shards.push(await readShard(folder, shard, index === null ? null : name, problems));
  }
  const counting = new Counting(index, name);
  for (const shard of shards) counting.add(shard);
  problems.push(...counting.finish());
  if (problems.length > 0) return { ok: false, problems };

  const { tensors, ignored } = counting;
  return {
    ok: true,
    checkpoint: {
      path: resolve(path),
      folder,
      indexFile: index === null ? null : name,
      files: shards.flatMap(({ read }) => (read === null ? [] : [read.file])),
      tensors: tensors.sort((a, b) => compareCodePoints(a.name, b.name)),
      totalBytes: tensors.reduce((total, tensor) => total + tensor.nbytes, 0),
      bytesByDtype: bytesByDtype(tensors),
      ignored: { files: beside.filter((file) => !named.includes(file)), tensors: ignored },
      config: await readConfig(folder),
    },
  };
}

async function readShard(
  folder: string,
  name: string,
  indexName: string | null,
  problems: CheckpointProblem[],
): Promise<Shard> {
  const reading = await readWeightFile(folder, name);
  if (!('problem' in reading)) return { name, read: reading };
  const isAbsent = reading.problem.kind === 'missing' && indexName !== null;
  problems.push(
    isAbsent
      ? {
          ...reading.problem,
          kind: 'shard-missing',
          message: `${name} is named in ${indexName} but is not in the folder: the download is not complete. Download the model again (hf download fetches only what is missing).`,
        }
      : reading.problem,
  );
  return { name, read: null };
}

/** Holds what the shards have against what the index says, in both directions. */
class Counting {
  readonly tensors: CheckpointTensor[] = [];
  readonly ignored: IgnoredTensor[] = [];
  readonly #index: WeightIndex | null;
  readonly #source: string;
  readonly #problems: CheckpointProblem[] = [];
  readonly #unreadable = new Set<string>();
  readonly #found = new Set<string>();
  readonly #elsewhere = new Map<string, string>();

  constructor(index: WeightIndex | null, source: string) {
    this.#index = index;
    this.#source = source;
  }

  add({ name, read }: Shard): void {
    if (read === null) {
      this.#unreadable.add(name);
      return;
    }
    const unsupported = new Map<string, HeaderTensor[]>();
    for (const tensor of read.header.tensors) {
      const expected = this.#index === null ? name : this.#index.get(tensor.name);
      if (expected === undefined) this.ignored.push({ file: name, name: tensor.name });
      else if (expected !== name) this.#elsewhere.set(tensor.name, name);
      else this.#count(tensor, read.file, read.header.dataOffset, unsupported);
    }
    for (const [dtype, tensors] of unsupported) this.#problems.push(dtypeProblem(name, dtype, tensors));
  }

  #count(
    tensor: HeaderTensor,
    file: SourceFile,
    dataOffset: number,
    unsupported: Map<string, HeaderTensor[]>,
  ): void {
    const { name, shape, start, end } = tensor;
    this.#found.add(name);
    if (name === '') {
      const message = `${file.name} holds a tensor without a name; an artifact's tensors need one. Save the model again with a name for each tensor.`;
      this.#problems.push(problem('tensor-unnamed', file.name, message, name));
      return;
    }
    const dtype = dtypeOfSafetensors(tensor.dtype);
    if (dtype === undefined) {
      const others = unsupported.get(tensor.dtype);
      if (others === undefined) unsupported.set(tensor.dtype, [tensor]);
      else others.push(tensor);
      return;
    }
    this.tensors.push({ name, dtype, shape, file, offset: dataOffset + start, nbytes: end - start });
  }

  /** The problems that show only when every shard has been seen. */
  finish(): CheckpointProblem[] {
    for (const [tensor, shard] of this.#elsewhere) {
      const expected = this.#index?.get(tensor) ?? shard;
      const both = this.#found.has(tensor);
      if (!both && this.#unreadable.has(expected)) continue;
      this.#problems.push(
        problem(
          'tensor-in-other-shard',
          shard,
          `${quoted(tensor)} lies in ${both ? `both ${expected} and ${shard}` : shard}, but ${this.#source} says ${expected}: index and shards are of different versions. Download them again, all from one revision.`,
          tensor,
        ),
      );
    }
    for (const [tensor, shard] of this.#index ?? []) {
      if (this.#found.has(tensor) || this.#elsewhere.has(tensor) || this.#unreadable.has(shard)) continue;
      this.#problems.push(
        problem(
          'tensor-missing',
          shard,
          `${this.#source} says that ${quoted(tensor)} is in ${shard}, but it is not: index and shard are of different versions. Download them again, all from one revision.`,
          tensor,
        ),
      );
    }
    if (this.#problems.length === 0 && this.#unreadable.size === 0 && this.tensors.length === 0) {
      this.#problems.push(
        problem('no-weights', this.#source, `${this.#source} holds no tensor, so there is nothing to build.`),
      );
    }
    return this.#problems;
  }
}

function quoted(tensor: string): string {
  return `the tensor ${JSON.stringify(tensor)}`;
}

function dtypeProblem(file: string, dtype: string, tensors: readonly HeaderTensor[]): CheckpointProblem {
  const [first] = tensors;
  const supported = dtypes.map((known) => known.safetensors).join(', ');
  const many =
    tensors.length > 1
      ? `${tensors.length} tensors of the dtype ${dtype}, for example`
      : `a tensor of the dtype ${dtype},`;
  return problem(
    'dtype-unsupported',
    file,
    `${file} holds ${many} ${JSON.stringify(first?.name)}; an artifact can't hold it. Use a version of the model in one of ${supported}.`,
    first?.name ?? null,
  );
}

function bytesByDtype(tensors: readonly CheckpointTensor[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { dtype, nbytes } of tensors) bytes.set(dtype.torch, (bytes.get(dtype.torch) ?? 0) + nbytes);
  return bytes;
}

/** Only a hint of what the model is, so whatever is wrong with it counts as none. */
async function readConfig(folder: string): Promise<JsonObject | null> {
  try {
    const bytes = await readBounded(join(folder, 'config.json'));
    const config = bytes === null ? null : parseJsonBytes(bytes);
    return isJsonObject(config) ? config : null;
  } catch (error) {
    if (error instanceof JsonError || isSystemError(error)) return null;
    throw error;
  }
}
