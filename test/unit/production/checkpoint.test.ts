/** Inspection: what counts, what is ignored, and every way of being wrong, all of it told at once. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CheckpointProblem } from '../../../src/production/checkpoint-problem.ts';
import { inspectCheckpoint, type Checkpoint } from '../../../src/production/checkpoint.ts';
import { CheckpointFolder, everyDtype, lfsPointer, safetensors, tensor } from '../../fixtures/checkpoint.ts';

let base: string;
let folder: CheckpointFolder;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'weightroom-checkpoint-'));
  folder = new CheckpointFolder(join(base, 'model'));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

async function sound(path = folder.path): Promise<Checkpoint> {
  const inspection = await inspectCheckpoint(path);
  if (!inspection.ok) throw new Error(inspection.problems.map(({ message }) => message).join('\n'));
  return inspection.checkpoint;
}

async function problems(path = folder.path): Promise<readonly CheckpointProblem[]> {
  const inspection = await inspectCheckpoint(path);
  expect(inspection.ok).toBe(false);
  return inspection.ok ? [] : inspection.problems;
}

async function onlyProblem(path = folder.path): Promise<CheckpointProblem> {
  const found = await problems(path);
  expect(found).toHaveLength(1);
  return found[0] as CheckpointProblem;
}

const a = { 'a.weight': tensor('F32', [4]) };
const b = { 'b.weight': tensor('F32', [6], 1) };
const first = 'model-00001-of-00002.safetensors';
const second = 'model-00002-of-00002.safetensors';

describe('what counts', () => {
  test('one file, with every dtype, unaligned, empty and scalar tensors (P5)', async () => {
    const tensors = everyDtype();
    folder.weights('model.safetensors', tensors).config({ model_type: 'tiny' });
    const checkpoint = await sound();
    expect(checkpoint.tensors.map(({ name }) => name)).toEqual(Object.keys(tensors).sort());
    expect(checkpoint.tensors.find(({ name }) => name === 'odd.second')?.offset).not.toBe(0);
    const bytes = Object.values(tensors).reduce((total, { bytes }) => total + bytes.length, 0);
    expect(checkpoint.totalBytes).toBe(bytes);
    expect([...checkpoint.bytesByDtype.values()].reduce((total, part) => total + part, 0)).toBe(bytes);
    expect(checkpoint.config).toMatchObject({ model_type: 'tiny' });
    expect(checkpoint.indexFile).toBeNull();
  });

  test('absolute byte ranges point at the tensor in its file', async () => {
    const tensors = everyDtype();
    const content = safetensors(tensors);
    folder.file('model.safetensors', content);
    for (const { name, offset, nbytes } of (await sound()).tensors) {
      expect(content.subarray(offset, offset + nbytes).equals(tensors[name]?.bytes as Buffer)).toBe(true);
    }
  });

  test('the only .safetensors file of a folder, whatever its name, and the file itself as the path', async () => {
    folder.weights('any-name.safetensors', a);
    expect((await sound()).files.map(({ name }) => name)).toEqual(['any-name.safetensors']);
    expect((await sound(join(folder.path, 'any-name.safetensors'))).tensors).toHaveLength(1);
  });

  test.each(['model', 'diffusion_pytorch_model', 'consolidated'])('shards of the index %s', async (stem) => {
    folder.shards(
      { [`${stem}-00001-of-00002.safetensors`]: a, [`${stem}-00002-of-00002.safetensors`]: b },
      stem,
    );
    const checkpoint = await sound();
    expect(checkpoint.indexFile).toBe(`${stem}.safetensors.index.json`);
    expect(checkpoint.files).toHaveLength(2);
    expect(checkpoint.tensors.map(({ file }) => file.name)).toEqual([
      `${stem}-00001-of-00002.safetensors`,
      `${stem}-00002-of-00002.safetensors`,
    ]);
  });

  test('a stale file beside the shards, and what the index does not name, are ignored and listed (P7)', async () => {
    folder
      .weights('model.safetensors', { ...a, ...b })
      .weights('notes.safetensors', { x: tensor('U8', [1]) })
      .weights(first, { ...a, 'rotary.inv_freq': tensor('F32', [2]) })
      .weights(second, b)
      .index({ 'a.weight': first, 'b.weight': second });
    const checkpoint = await sound();
    expect(checkpoint.tensors.map(({ name }) => name)).toEqual(['a.weight', 'b.weight']);
    expect(checkpoint.ignored).toEqual({
      files: ['model.safetensors', 'notes.safetensors'],
      tensors: [{ file: first, name: 'rotary.inv_freq' }],
    });
  });

  test("links as in the Hub's snapshots, and an index with shards in a folder below", async () => {
    const hub = new CheckpointFolder(join(base, 'models--org--tiny'))
      .file('blobs/aaaa', safetensors(a))
      .link('snapshots/rev/model.safetensors', '../../blobs/aaaa');
    expect((await sound(join(hub.path, 'snapshots/rev'))).tensors).toHaveLength(1);
    folder.weights(`parts/${first}`, a).index({ 'a.weight': `./parts/${first}` });
    expect((await sound()).files[0]?.name).toBe(`parts/${first}`);
  });

  test('a file of tensors that the index does not read is not even opened', async () => {
    folder.shards({ [first]: a, [second]: b }).file('old.safetensors', lfsPointer(1));
    expect((await sound()).ignored.files).toEqual(['old.safetensors']);
  });

  test('a broken or odd config.json is no config, and no problem', async () => {
    folder.weights('model.safetensors', a).file('config.json', '{"x": NaN');
    expect((await sound()).config).toBeNull();
    folder.file('config.json', '[]');
    expect((await sound()).config).toBeNull();
  });

  test('the signal stops an inspection with its reason', async () => {
    folder.weights('model.safetensors', a);
    const reason = new Error('enough');
    await expect(inspectCheckpoint(folder.path, AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

describe('which checkpoint is meant', () => {
  test('several indexes, none of them the default one: the candidates are named', async () => {
    folder.shards({ 'x-1.safetensors': a }, 'x').shards({ 'y-1.safetensors': a }, 'y');
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('ambiguous');
    expect(message).toContain('x.safetensors.index.json, y.safetensors.index.json');
    expect((await sound(join(folder.path, 'y.safetensors.index.json'))).files[0]?.name).toBe(
      'y-1.safetensors',
    );
  });

  test('several files without an index', async () => {
    folder.weights('x.safetensors', a).weights('y.safetensors', b);
    expect(await onlyProblem()).toMatchObject({
      kind: 'ambiguous',
      message: expect.stringContaining('Give the path of the one that is meant') as string,
    });
  });

  test('shards whose index is missing', async () => {
    folder.weights(first, a).weights(second, b);
    const { message } = await onlyProblem();
    expect(message).toContain('the index (*.safetensors.index.json)');
    expect(message).toContain('Download it');
  });

  test('a single shard of one is whole without an index', async () => {
    folder.weights('model-00001-of-00001.safetensors', a);
    expect((await sound()).tensors).toHaveLength(1);
  });

  test('one shard given as the path', async () => {
    folder.shards({ [first]: a, [second]: b });
    const { kind, message } = await onlyProblem(join(folder.path, second));
    expect(kind).toBe('one-of-several-shards');
    expect(message).toContain('Give the folder or model.safetensors.index.json');
  });

  test('only PyTorch files: what is read instead, and how to convert', async () => {
    folder.file('pytorch_model.bin', 'x').file('extra.pt', 'x');
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('not-safetensors');
    expect(message).toContain('extra.pt, pytorch_model.bin');
    expect(message).toContain('save_pretrained');
  });

  test('an empty folder; a pipeline, whose components are named; a Hub cache folder, whose snapshots are', async () => {
    expect(await onlyProblem()).toMatchObject({ kind: 'no-weights' });
    folder.weights('transformer/diffusion_pytorch_model.safetensors', a).file('model_index.json', '{}');
    expect((await onlyProblem()).message).toContain('give one of transformer');
    const hub = new CheckpointFolder(join(base, 'models--org--tiny'))
      .file('blobs/x', '')
      .file('snapshots/abc/x', '');
    expect((await onlyProblem(hub.path)).message).toContain('snapshots/abc');
  });

  test('nothing there, a FIFO, a folder under the name of the weights', async () => {
    expect(await onlyProblem(join(base, 'nowhere'))).toMatchObject({ kind: 'missing' });
    const fifo = join(base, 'pipe.safetensors');
    spawnSync('mkfifo', [fifo]);
    expect(await onlyProblem(fifo)).toMatchObject({ kind: 'not-a-regular-file' });
    mkdirSync(join(folder.path, 'model.safetensors'));
    expect(await onlyProblem()).toMatchObject({ kind: 'not-a-regular-file', file: 'model.safetensors' });
  });
});

describe('what is wrong with a file', () => {
  test('a Git LFS pointer, with what to run (P2)', async () => {
    folder.file('model.safetensors', lfsPointer(4_976_698_672));
    const { kind, file, message } = await onlyProblem();
    expect([kind, file]).toEqual(['lfs-pointer', 'model.safetensors']);
    expect(message).toContain('Git LFS pointer');
    expect(message).toContain('4976698672 bytes');
    expect(message).toContain('git lfs pull');
    expect(message).toContain('hf download');
  });

  test('an index that is an LFS pointer', async () => {
    folder.file('model.safetensors.index.json', lfsPointer(1));
    expect(await onlyProblem()).toMatchObject({ kind: 'lfs-pointer' });
  });

  test.each([
    ['a web page', '<!DOCTYPE html><title>Sign in</title>', 'web page'],
    ['a PyTorch archive', 'PK\x03\x04archive/data.pkl', 'PyTorch archive'],
    ['a GGUF file', 'GGUF\x03\x00\x00\x00', 'GGUF'],
  ])('%s under the name of weights', async (_what, content, word) => {
    folder.file('model.safetensors', content);
    expect(await onlyProblem()).toMatchObject({
      kind: 'not-safetensors',
      message: expect.stringContaining(word) as string,
    });
  });

  test('an empty file', async () => {
    folder.file('model.safetensors', '');
    expect(await onlyProblem()).toMatchObject({ kind: 'empty-file' });
  });

  test('a duplicate key is refused and named (P1)', async () => {
    const entry = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}';
    folder.file(
      'model.safetensors',
      safetensors({ x: tensor('U8', [1]) }, { header: `{"x":${entry},"x":${entry}}` }),
    );
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('header-broken');
    expect(message).toContain('names "x" twice');
  });

  test('trailing bytes, a gap, an overlap and an offset past the end, each with its offset (P4)', async () => {
    const two = { x: tensor('U8', [4]), y: tensor('U8', [4]) };
    const header = (x: number[], y: number[]): string =>
      JSON.stringify({
        x: { dtype: 'U8', shape: [4], data_offsets: x },
        y: { dtype: 'U8', shape: [4], data_offsets: y },
      });
    const cases: [string, Buffer, string[]][] = [
      ['trailing', safetensors(two, { trailing: Buffer.alloc(3) }), ['3 bytes after data offset 8']],
      [
        'gap',
        safetensors(two, { header: header([0, 4], [6, 10]), trailing: Buffer.alloc(2) }),
        ['"y" starts at data offset 6', '2 bytes before it'],
      ],
      ['overlap', safetensors(two, { header: header([0, 4], [2, 6]) }), ['"y" starts at data offset 2']],
      ['past the end', safetensors(two, { header: header([0, 4], [4, 99]) }), ['99', 'past the end']],
    ];
    for (const [what, content, words] of cases) {
      folder.file('model.safetensors', content);
      const { kind, message } = await onlyProblem();
      expect(kind, what).toBe('header-broken');
      for (const word of words) expect(message).toContain(word);
      expect(message).toContain('Download it again');
    }
  });

  test('a file cut short, in its data and in its header', async () => {
    folder.weights('model.safetensors', a);
    truncateSync(join(folder.path, 'model.safetensors'), safetensors(a).length - 1);
    expect((await onlyProblem()).message).toContain('past the end');
    truncateSync(join(folder.path, 'model.safetensors'), 20);
    expect((await onlyProblem()).message).toContain('has only 20');
  });

  test("a header over the format's limit (P3)", async () => {
    const content = Buffer.alloc(64);
    content.writeBigUInt64LE(100_000_001n);
    folder.file('model.safetensors', content);
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('header-too-large');
    expect(message).toContain('100000001 bytes; the format allows 100000000');
    expect(message).toContain('in several shards');
  });

  test('a dtype that no artifact can hold, told once for all its tensors', async () => {
    folder.weights('model.safetensors', {
      x: tensor('U16', [2]),
      y: tensor('U16', [2]),
      z: tensor('U32', [2]),
      fine: tensor('F32', [2]),
    });
    const found = await problems();
    expect(found.map(({ kind }) => kind)).toEqual(['dtype-unsupported', 'dtype-unsupported']);
    expect(found[0]?.message).toContain('2 tensors of the dtype U16, for example "x"');
    expect(found[1]?.message).toContain('a tensor of the dtype U32, "z"');
    expect(found[1]?.message).toContain('BF16');
  });

  test('no read permission', async () => {
    folder.weights('model.safetensors', a);
    chmodSync(base, 0o755);
    chmodSync(join(folder.path, 'model.safetensors'), 0o000);
    const { kind, message } = await asOrdinaryUser(() => onlyProblem());
    expect(kind).toBe('no-permission');
    expect(message).toContain('no permission');
    expect(message).toContain('chmod u+r');
  });

  test('no tensors, and a tensor without a name', async () => {
    folder.weights('model.safetensors', {});
    expect(await onlyProblem()).toMatchObject({ kind: 'no-weights' });
    folder.weights('model.safetensors', { '': tensor('U8', [1]) });
    expect(await onlyProblem()).toMatchObject({ kind: 'tensor-unnamed' });
  });
});

/** Root reads everything; everybody else already is an ordinary user. */
async function asOrdinaryUser<T>(work: () => Promise<T>): Promise<T> {
  const uid = process.geteuid?.();
  if (uid !== 0) return await work();
  process.seteuid?.(65534);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}

describe('what is wrong with an index', () => {
  test('both directions, all problems at once (P6)', async () => {
    folder
      .weights(first, { ...a, 'moved.weight': tensor('F32', [1]) })
      .weights(second, { ...b, 'twice.weight': tensor('F32', [1]) })
      .weights('third.safetensors', { 'twice.weight': tensor('F32', [1]) })
      .index({
        'a.weight': first,
        'absent.weight': first,
        'b.weight': second,
        'moved.weight': second,
        'twice.weight': 'third.safetensors',
        'gone.1': 'gone.safetensors',
        'gone.2': 'gone.safetensors',
      });
    const found = await problems();
    expect(found.map(({ kind, file, tensor: name }) => [kind, file, name])).toEqual([
      ['shard-missing', 'gone.safetensors', null],
      ['tensor-in-other-shard', first, 'moved.weight'],
      ['tensor-in-other-shard', second, 'twice.weight'],
      ['tensor-missing', first, 'absent.weight'],
    ]);
    expect(found[0]?.message).toContain('is named in model.safetensors.index.json but is not in the folder');
    expect(found[1]?.message).toContain(`lies in ${first}, but model.safetensors.index.json says ${second}`);
    expect(found[2]?.message).toContain(`lies in both third.safetensors and ${second}`);
    expect(found[3]?.message).toContain('all from one revision');
  });

  test('a broken shard and a missing one are both told, but not each of their tensors', async () => {
    folder.file(first, lfsPointer(9)).index({ x: first, y: first, z: second });
    expect((await problems()).map(({ kind }) => kind)).toEqual(['lfs-pointer', 'shard-missing']);
  });

  test('a link to a blob that was never downloaded', async () => {
    folder.link(first, '../../blobs/nothing').index({ x: first });
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('dangling-link');
    expect(message).toContain('../../blobs/nothing, which is not there');
  });

  test.each([
    '../outside.safetensors',
    '/etc/x.safetensors',
    'a/../../x.safetensors',
    '..',
    'x\0.safetensors',
  ])('a file name that leads out: %j', async (name) => {
    writeFileSync(join(base, 'outside.safetensors'), safetensors(a));
    folder.index({ 'a.weight': name });
    const { kind, message } = await onlyProblem();
    expect(kind).toBe('index-unsafe-path');
    expect(message).toContain(JSON.stringify(name));
  });

  test.each([
    ['{"weight_map": {', 'is not valid JSON'],
    ['[]', 'has no "weight_map"'],
    ['{"weight_map": []}', 'has no "weight_map"'],
    ['{"weight_map": {}}', 'names no tensor'],
    ['{"weight_map": {"x": 5}}', 'gives no file name for the tensor "x"'],
    ['{"weight_map": {"x": "pytorch_model.bin"}}', 'only .safetensors files are read'],
  ])('%s', async (content, word) => {
    folder.file('model.safetensors.index.json', content);
    expect(await onlyProblem()).toMatchObject({
      kind: 'index-broken',
      message: expect.stringContaining(word) as string,
    });
  });

  test('a tensor called __proto__ is a tensor like any other', async () => {
    const header = '{"__proto__":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}';
    folder
      .file(first, safetensors({ x: tensor('U8', [3]) }, { header }))
      .file('model.safetensors.index.json', `{"weight_map":{"__proto__":"${first}"}}`);
    expect((await sound()).tensors.map(({ name }) => name)).toEqual(['__proto__']);
  });
});
