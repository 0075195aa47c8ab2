/** Which model a checkpoint is said to be, from its place and its configuration. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { inspectCheckpoint, type Checkpoint } from '../../../src/production/checkpoint.ts';
import { provenanceOf } from '../../../src/production/provenance.ts';
import { CheckpointFolder, tensor } from '../../fixtures/checkpoint.ts';

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'weightroom-provenance-'));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const weights = { x: tensor('U8', [1]) };

async function checkpoint(path: string, config?: Record<string, unknown>): Promise<Checkpoint> {
  const folder = new CheckpointFolder(join(base, path)).weights('model.safetensors', weights);
  if (config !== undefined) folder.config(config);
  return await inspected(folder.path);
}

async function inspected(path: string): Promise<Checkpoint> {
  const inspection = await inspectCheckpoint(path);
  if (!inspection.ok) throw new Error('the fixture is broken');
  return inspection.checkpoint;
}

test.each([
  ['hub/models--Qwen--Qwen-Image/snapshots/0123abcd', 'Qwen/Qwen-Image', '0123abcd'],
  ['hub/models--Qwen--Qwen-Image/snapshots/0123abcd/transformer', 'Qwen/Qwen-Image', '0123abcd'],
  ['models--gpt2/snapshots/main', 'gpt2', 'main'],
  ['downloads/my-model', 'my-model', 'unknown'],
])('%s is %s at %s', async (path, modelId, revision) => {
  expect(provenanceOf(await checkpoint(path))).toEqual({ modelId, revision });
});

test.each([
  ['Qwen/Qwen3-8B', 'Qwen/Qwen3-8B'],
  ['gpt2', 'gpt2'],
  ['./output', 'folder'],
  ['/data/models/x', 'folder'],
  ['~/x', 'folder'],
  ['a/b/c', 'folder'],
  ['', 'folder'],
  [7, 'folder'],
])('_name_or_path %j gives %s', async (name, modelId) => {
  expect(provenanceOf(await checkpoint('folder', { _name_or_path: name })).modelId).toBe(modelId);
});

test('a snapshot path says more than the configuration, and what is given says most', async () => {
  const source = await checkpoint('models--org--name/snapshots/abc', { _name_or_path: 'other/base' });
  expect(provenanceOf(source).modelId).toBe('org/name');
  expect(provenanceOf(source, { modelId: 'mine', revision: null })).toEqual({
    modelId: 'mine',
    revision: 'abc',
  });
  expect(provenanceOf(source, { revision: 'v2' })).toEqual({ modelId: 'org/name', revision: 'v2' });
});

test("a pipeline's component has the pipeline's name, a file of its own name its own", async () => {
  const pipeline = new CheckpointFolder(join(base, 'flux')).file('model_index.json', '{}');
  pipeline
    .weights('vae/diffusion_pytorch_model.safetensors', weights)
    .weights('loras/ink.safetensors', weights);
  expect(provenanceOf(await inspected(join(pipeline.path, 'vae'))).modelId).toBe('flux');
  const file = (name: string): Promise<Checkpoint> => inspected(join(pipeline.path, name));
  expect(provenanceOf(await file('loras/ink.safetensors')).modelId).toBe('ink');
  expect(provenanceOf(await file('vae/diffusion_pytorch_model.safetensors')).modelId).toBe('flux');
});
