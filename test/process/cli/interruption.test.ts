/** Ctrl+C: a build leaves nothing behind and says so, a check changes nothing, and both end with 130. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { CheckpointFolder } from '../../fixtures/checkpoint.ts';
import { Place, until, type CommandDocument } from './weightroom.ts';

const gib = 1024 ** 3;

function largeCheckpoint(place: Place, bytes: number): string {
  return new CheckpointFolder(place.at('large')).sparse('model.safetensors', 'w', 'F32', bytes / 4).path;
}

function staged(root: string): string[] {
  return readdirSync(join(root, 'tmp'));
}

it.each(['SIGINT', 'SIGTERM'] as const)('a build that is writing, by %s', async (signal) => {
  const place = new Place();
  const root = await place.store();
  const { child, ended } = place.start([
    'build',
    largeCheckpoint(place, 2 * gib),
    '--domain',
    root,
    '--json',
  ]);
  await until('the build writes', () =>
    staged(root).some((name) => readdirSync(join(root, 'tmp', name)).length > 0),
  );
  child.kill(signal);
  // A terminal and a launcher can deliver one keypress twice.
  child.kill(signal);
  const { code, stdout } = await ended;
  expect(code).toBe(130);
  const document = JSON.parse(stdout) as CommandDocument;
  expect(document).toMatchObject({
    status: 'failed',
    artifact_bytes: null,
    failure: { details: { interrupted: true } },
  });
  expect(document.failure.message).toBe(
    'The build was cancelled. Nothing of it is left behind in the store.',
  );
  expect(staged(root)).toEqual([]);
  expect((await place.json('ls', root)).document.entries).toEqual([]);
  expect((await place.json('locks', root)).document.held).toBe(0);
});

it('a build that waits for admission, which tells who is in the way', async () => {
  const place = new Place();
  const root = await place.store('store', '--admission', 'serialized', '--max-store', '8GiB');
  const first = place.start(['build', largeCheckpoint(place, 2 * gib), '--domain', root]);
  await until('the first build writes', () => staged(root).length > 0);
  const second = place.start(['build', place.checkpoint(), '--domain', root]);
  let told = '';
  second.child.stderr?.on('data', (text: string) => (told += text));
  await until('the second build waits', () =>
    /waiting for admission, held by process \d+ \(.*build-process/.test(told),
  );
  second.child.kill('SIGINT');
  expect((await second.ended).code).toBe(130);
  first.child.kill('SIGINT');
  expect((await first.ended).code).toBe(130);
  expect(staged(root)).toEqual([]);
});

it('a full verification', async () => {
  const place = new Place();
  const root = await place.store();
  const key = await place.built(root, largeCheckpoint(place, 1 * gib));
  const { child, ended } = place.start(['verify', root, '--full', '--json']);
  await until('the artifact is leased', () => leases(child.pid as number) > 0);
  child.kill('SIGINT');
  const { code, stdout } = await ended;
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({
    level: 'full_checksum',
    artifacts: [],
    failure: {
      message: 'Interrupted: 1 artifact not checked. Nothing was changed.',
      details: { interrupted: true },
    },
  });
  const listed = (await place.json('ls', root)).document;
  expect(listed.entries).toMatchObject([{ key, state: 'ready' }]);
});

it('the sample while it makes its checkpoint, without a trace', async () => {
  const place = new Place();
  const { child, ended } = place.start(['sample', '--size', '2GiB']);
  const samples = place.at('data/weightroom/samples');
  await until('the checkpoint is being made', () => {
    try {
      return readdirSync(samples).length > 0;
    } catch {
      return false;
    }
  });
  child.kill('SIGINT');
  const { code, stderr } = await ended;
  expect(code).toBe(130);
  expect(stderr).toContain('Interrupted. Nothing was built.');
  expect(readdirSync(samples)).toEqual([]);
});

/** Locks that a process holds, from the kernel's table. */
function leases(pid: number): number {
  const lines = readFileSync('/proc/locks', 'latin1').split('\n');
  return lines.filter((line) => line.includes('FLOCK') && line.includes(` ${pid} `)).length;
}
