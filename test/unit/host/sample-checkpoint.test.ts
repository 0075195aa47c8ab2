import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { makeSampleCheckpoint } from '../../../src/host/sample-checkpoint.ts';
import { inspectCheckpoint } from '../../../src/production/checkpoint.ts';

const folder = mkdtempSync(join(tmpdir(), 'weightroom-sample-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { signal } = new AbortController();

function digestOf(path: string): string {
  const digest = createHash('sha256');
  for (const name of readdirSync(path).sort()) digest.update(readFileSync(join(path, name)));
  return digest.digest('hex');
}

it.each([1, 500_000, 3_000_000])(
  'a checkpoint of about %i bytes is sound: shards, float32 and float16',
  async (size) => {
    const { path, tensorBytes } = await makeSampleCheckpoint(folder, size, signal);
    const inspection = await inspectCheckpoint(path);
    if (!inspection.ok) throw new Error(inspection.problems[0]?.message);
    const { files, totalBytes, bytesByDtype } = inspection.checkpoint;
    expect(files).toHaveLength(3);
    expect(totalBytes).toBe(tensorBytes);
    expect([...bytesByDtype.keys()].sort()).toEqual(['torch.float16', 'torch.float32']);
    expect(tensorBytes).toBeLessThanOrEqual(Math.max(size, 256 * 1024));
  },
);

it('the same size gives the same bytes, and a second run finds the first', async () => {
  const here = await makeSampleCheckpoint(join(folder, 'here'), 300_000, signal);
  const there = await makeSampleCheckpoint(join(folder, 'there'), 300_000, signal);
  expect(digestOf(here.path)).toBe(digestOf(there.path));
  expect(await makeSampleCheckpoint(join(folder, 'here'), 300_000, signal)).toEqual({
    ...here,
    existing: true,
  });
});

it('an interrupted run leaves nothing', async () => {
  const interrupted = AbortSignal.abort(new Error('stop'));
  const place = join(folder, 'interrupted');
  await expect(makeSampleCheckpoint(place, 300_000, interrupted)).rejects.toThrow('stop');
  expect(readdirSync(place)).toEqual([]);
});
