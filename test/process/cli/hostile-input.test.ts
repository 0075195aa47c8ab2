/** Input that must neither hang a command, nor crash it, nor make it write where nobody asked it to. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, openSync, closeSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { launcher, Place } from './weightroom.ts';

it('a home below which no folder can be made only costs the compile cache', async () => {
  const place = new Place();
  const root = await place.store();
  const elsewhere = {
    XDG_CACHE_HOME: '/proc/nowhere',
    XDG_DATA_HOME: '/proc/nowhere',
    NODE_COMPILE_CACHE: '',
  };
  expect((await place.start(['ls', root], { env: elsewhere }).ended).code).toBe(0);
  const sample = await place.start(['sample', '--size', '1MiB'], { env: elsewhere }).ended;
  expect(sample.code).toBe(4);
  expect(sample.stderr).toContain('the data folder cannot be made');
});

it('an identity behind a FIFO or of any size is refused, and standard input can be interrupted', async () => {
  const place = new Place();
  const root = await place.store();
  spawnSync('mkfifo', [place.at('fifo')]);
  const fifo = await place.run('resolve', root, place.at('fifo'), '--mode', 'required');
  expect(fifo).toMatchObject({ code: 2 });
  expect(fifo.stderr).toContain('is not a regular file');
  expect(await place.run('resolve', root, '/dev/zero', '--mode', 'required')).toMatchObject({ code: 2 });
});

it('a full disk under the answer or under the messages is told, and is no bug', async () => {
  const place = new Place();
  const root = await place.store();
  const full = (words: string[], stream: 1 | 2) => {
    const fd = openSync('/dev/full', 'w');
    const stdio: (number | 'ignore' | 'pipe')[] = ['ignore', 'pipe', 'pipe'];
    stdio[stream] = fd;
    const run = spawnSync(process.execPath, [launcher, ...words], {
      stdio,
      env: { ...process.env, HOME: place.path },
    });
    closeSync(fd);
    return { code: run.status, text: (stream === 1 ? run.stderr : run.stdout).toString() };
  };
  const answer = full(['ls', root], 1);
  expect(answer).toMatchObject({ code: 4 });
  expect(answer.text).toMatch(/^weightroom: the answer could not be written: ENOSPC.*\n$/);
  expect(full(['build', place.at('missing'), '--domain', root], 2).code).toBe(3);
});

it('a sample that no disk holds is refused before a byte is written', async () => {
  const place = new Place();
  const run = await place.run('sample', '--size', '1PiB');
  expect(run.code).toBe(2);
  expect(run.stderr).toContain('is too much for a sample');
  expect(existsSync(place.at('data', 'weightroom', 'samples'))).toBe(false);
});

it('a working directory that is gone, or whose name is not UTF-8, is wrong use', async () => {
  const place = new Place();
  mkdirSync(place.at('gone'));
  const gone = spawnSync(
    'sh',
    [
      '-c',
      `cd "$1" && rmdir "$1" && exec "$2" "$3" domain create store`,
      'sh',
      place.at('gone'),
      process.execPath,
      launcher,
    ],
    { env: { ...process.env, HOME: place.path } },
  );
  expect({ code: gone.status, text: gone.stderr.toString() }).toMatchObject({ code: 2 });
  const odd = Buffer.concat([Buffer.from(place.at('odd-')), Buffer.from([0xff])]);
  mkdirSync(odd);
  const inOdd = spawnSync(
    'sh',
    ['-c', `cd "${place.path}"/odd-* && exec "$1" "$2" domain create .`, 'sh', process.execPath, launcher],
    {
      env: { ...process.env, HOME: place.path },
    },
  );
  expect(inOdd.status).toBe(2);
  expect(inOdd.stderr.toString()).toContain('is not UTF-8');
  expect(readdirSync(place.path).filter((name) => name.startsWith('odd-'))).toHaveLength(1);
  rmSync(odd, { recursive: true });
});

it('what verify finds is cured by what it advises', async () => {
  const place = new Place();
  const root = await place.store();
  const checkpoint = place.checkpoint();
  const key = await place.built(root, checkpoint);
  const payload = join(root, 'artifacts', key, 'weights-00001-of-00001.safetensors');
  spawnSync('sh', [
    '-c',
    `chmod u+w "$1" && printf x | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 1)) conv=notrunc && chmod 444 "$1"`,
    'sh',
    payload,
  ]);
  const verified = await place.run('verify', root, '--full');
  expect(verified.code).toBe(3);
  expect(verified.stdout + verified.stderr).toContain('weightroom build --full');
  expect((await place.json('build', checkpoint, '--domain', root, '--full')).document).toMatchObject({
    status: 'built',
    key,
  });
  expect((await place.run('verify', root, '--full')).code).toBe(0);
});

it('what a store can never hold is refused before its weights are read', async () => {
  const place = new Place();
  const root = place.at('small');
  await place.run('domain', 'create', root, '--max-artifact', '1KiB');
  const { code, document } = await place.json('build', place.checkpoint(), '--domain', root);
  expect(code).toBe(4);
  expect(document.failure).toMatchObject({ code: 'artifact_too_large' });
  expect(document.failure.message).toContain('the tensors alone take');
  expect(document.failure.message).toContain('Use a store with a larger limit');
});
