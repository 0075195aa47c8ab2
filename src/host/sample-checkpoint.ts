/**
 * A small checkpoint that needs no download: a Hugging Face folder with shards and an index, of a
 * transformer's shape, in float32 and float16. The same size gives the same bytes on every machine.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, rename, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolders } from '../store/directories.ts';
import { uuidHex } from '../store/paths.ts';

export interface SampleCheckpoint {
  readonly path: string;
  /** It was there already. */
  readonly existing: boolean;
  readonly tensorBytes: number;
}

interface SampleTensor {
  readonly name: string;
  readonly dtype: 'F32' | 'F16';
  readonly shape: readonly number[];
  readonly nbytes: number;
}

const shards = 3;
const chunkBytes = 1024 ** 2;

/**
 * Makes the checkpoint of about `sizeBytes` (never less than about 200 KiB) below `folder`, or finds it there. It appears in one step: what an
 * interrupted run left is never taken for it. Throws a SystemError, or the signal's reason.
 */
export async function makeSampleCheckpoint(
  folder: string,
  sizeBytes: number,
  signal: AbortSignal,
): Promise<SampleCheckpoint> {
  const tensors = sampleTensors(sizeBytes);
  const tensorBytes = tensors.reduce((total, { nbytes }) => total + nbytes, 0);
  const path = join(folder, `llama-shaped-${tensorBytes}`);
  if (existsSync(path)) return { path, existing: true, tensorBytes };
  const unfinished = join(folder, `.unfinished-${process.pid}-${uuidHex()}`);
  makeFolders(unfinished);
  try {
    await writeCheckpoint(unfinished, tensors, tensorBytes, signal);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another run of the sample may have made it in the meantime.
    if (!existsSync(path)) throw error;
    signal.throwIfAborted();
  }
  return { path, existing: false, tensorBytes };
}

/** The widest shape of which four layers fit, and as many layers as then fit. */
function sampleTensors(sizeBytes: number): SampleTensor[] {
  const widths = [4096, 2048, 1024, 512, 256, 128, 64];
  const width = widths.find((candidate) => bytesOf(modelTensors(candidate, 4)) <= sizeBytes) ?? 64;
  const layerBytes = bytesOf(modelTensors(width, 1)) - bytesOf(modelTensors(width, 0));
  const layers = Math.max(1, Math.floor((sizeBytes - bytesOf(modelTensors(width, 0))) / layerBytes));
  return modelTensors(width, layers);
}

function bytesOf(tensors: readonly SampleTensor[]): number {
  return tensors.reduce((total, { nbytes }) => total + nbytes, 0);
}

/** Attention in float32, the rest in float16, so that a cast has both to do. */
function modelTensors(width: number, layers: number): SampleTensor[] {
  const inner = Math.ceil((width * 8) / 3 / 32) * 32;
  const vocabulary = width * 4;
  const list = [tensor('model.embed_tokens.weight', 'F16', [vocabulary, width])];
  for (let layer = 0; layer < layers; layer += 1) {
    const prefix = `model.layers.${layer}`;
    list.push(tensor(`${prefix}.input_layernorm.weight`, 'F32', [width]));
    for (const part of ['q', 'k', 'v', 'o']) {
      list.push(tensor(`${prefix}.self_attn.${part}_proj.weight`, 'F32', [width, width]));
    }
    list.push(tensor(`${prefix}.post_attention_layernorm.weight`, 'F32', [width]));
    list.push(tensor(`${prefix}.mlp.gate_proj.weight`, 'F16', [inner, width]));
    list.push(tensor(`${prefix}.mlp.up_proj.weight`, 'F16', [inner, width]));
    list.push(tensor(`${prefix}.mlp.down_proj.weight`, 'F16', [width, inner]));
  }
  list.push(tensor('model.norm.weight', 'F32', [width]));
  list.push(tensor('lm_head.weight', 'F16', [vocabulary, width]));
  return list;
}

function tensor(name: string, dtype: SampleTensor['dtype'], shape: readonly number[]): SampleTensor {
  const elements = shape.reduce((product, size) => product * size, 1);
  return { name, dtype, shape, nbytes: elements * (dtype === 'F32' ? 4 : 2) };
}

async function writeCheckpoint(
  folder: string,
  tensors: readonly SampleTensor[],
  tensorBytes: number,
  signal: AbortSignal,
): Promise<void> {
  const weightMap: Record<string, string> = {};
  for (const [index, group] of intoShards(tensors, tensorBytes).entries()) {
    const five = (value: number): string => String(value).padStart(5, '0');
    const name = `model-${five(index + 1)}-of-${five(shards)}.safetensors`;
    for (const member of group) weightMap[member.name] = name;
    await writeShard(join(folder, name), group, signal);
  }
  await writeJson(join(folder, 'model.safetensors.index.json'), {
    metadata: { total_size: tensorBytes },
    weight_map: weightMap,
  });
  await writeJson(join(folder, 'config.json'), {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    torch_dtype: 'float32',
  });
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** Shards of about the same size, tensors in order. None is empty: there are more tensors than shards. */
function intoShards(tensors: readonly SampleTensor[], tensorBytes: number): SampleTensor[][] {
  const groups: SampleTensor[][] = Array.from({ length: shards }, () => []);
  let before = 0;
  let group = 0;
  tensors.forEach((member, index) => {
    const left = tensors.length - index;
    const wanted = Math.min(shards - 1, Math.floor((before / tensorBytes) * shards));
    if (groups[group]?.length !== 0 && (wanted > group || left < shards - group)) group += 1;
    groups[Math.min(group, shards - 1)]?.push(member);
    before += member.nbytes;
  });
  return groups;
}

async function writeShard(
  path: string,
  tensors: readonly SampleTensor[],
  signal: AbortSignal,
): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.write(shardHeader(tensors));
    for (const member of tensors) await writeTensor(file, member, signal);
  } finally {
    await file.close();
  }
}

function shardHeader(tensors: readonly SampleTensor[]): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, dtype, shape, nbytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + nbytes] };
    offset += nbytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
  padded.writeBigUInt64LE(BigInt(padded.length - 8));
  json.copy(padded, 8);
  return padded;
}

async function writeTensor(
  file: FileHandle,
  { name, dtype, nbytes }: SampleTensor,
  signal: AbortSignal,
): Promise<void> {
  const next = randomBits(name);
  for (let written = 0; written < nbytes; written += chunkBytes) {
    signal.throwIfAborted();
    const chunk = new Uint32Array(Math.ceil(Math.min(chunkBytes, nbytes - written) / 4));
    for (let index = 0; index < chunk.length; index += 1) {
      chunk[index] = dtype === 'F32' ? smallFloat32(next()) : smallFloat16Pair(next());
    }
    await file.write(new Uint8Array(chunk.buffer, 0, Math.min(chunkBytes, nbytes - written)));
  }
}

/** Xorshift, started from the tensor's name. */
function randomBits(name: string): () => number {
  let state = createHash('sha256').update(name).digest().readUInt32LE() | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** Random sign and fraction, and one of eight exponents below 1: the size that weights have. */
function smallFloat32(bits: number): number {
  return (bits & 0x807f_ffff) | ((116 + ((bits >>> 23) & 7)) << 23);
}

/** Two float16 of the same kind. */
function smallFloat16Pair(bits: number): number {
  const exponents = ((4 + ((bits >>> 10) & 7)) << 10) | ((4 + ((bits >>> 26) & 7)) << 26);
  return (bits & 0x83ff_83ff) | exponents;
}
