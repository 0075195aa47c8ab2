/** What goes wrong, by exit code: the text says what, why and what to do, and programs get one shape. */
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';

import { native } from '../../../native/index.ts';
import { CheckpointFolder, lfsPointer } from '../../fixtures/checkpoint.ts';
import { Place, project, type EntryDocument, type FailureDocument } from './weightroom.ts';

const isRoot = process.getuid?.() === 0;

/** Every failure has the same five fields, and a person is never shown a stack. */
async function failing(
  place: Place,
  words: readonly string[],
): Promise<{ code: number | null; text: string; failure: FailureDocument }> {
  const people = await place.run(...words);
  const programs = await place.json(...words);
  expect(people.code).toBe(programs.code);
  expect(people.stdout).toBe('');
  expect(people.stderr).not.toMatch(/^\s+at /m);
  expect(programs.stderr).toBe('');
  const { failure } = programs.document;
  expect(Object.keys(failure).sort()).toEqual(['code', 'details', 'message', 'retryable', 'stage']);
  return { code: people.code, text: people.stderr, failure };
}

describe('wrong use: 2', () => {
  const cases: [string, (place: Place) => string[], RegExp][] = [
    ['no command', () => [], /a command is missing/],
    ['a mistyped command', () => ['verfiy'], /Did you mean "verify"\?/],
    ['half a command', () => ['domain'], /"domain" needs a second word: create or show/],
    ['a mistyped second word', () => ['quarantine', 'sl'], /Did you mean "quarantine ls"\?/],
    ['a mistyped option', () => ['ls', 'x', '--jsn'], /did you mean --json\?/],
    ['an argument too many', () => ['ls', 'x', 'y'], /"y" is one argument too many/],
    ['a missing argument', () => ['show', 'x'], /<key> is missing/],
    [
      'serialized without a limit',
      (p) => ['domain', 'create', p.at('s'), '--admission', 'serialized'],
      /needs a store limit/,
    ],
    [
      'another admission',
      (p) => ['domain', 'create', p.at('s'), '--admission', 'ordered'],
      /serialized or concurrent, not "ordered"/,
    ],
    [
      'a bad size',
      (p) => ['domain', 'create', p.at('s'), '--max-store', '12 parsecs'],
      /is not a size: write it as 192GiB/,
    ],
    ['a vague size', (p) => ['domain', 'create', p.at('s'), '--max-store', '12G'], /does not say which G/],
    ['a limit of nothing', (p) => ['domain', 'create', p.at('s'), '--max-store', '0'], /above 0/],
    [
      'the root of the file system',
      () => ['domain', 'create', '/'],
      /root of the file system cannot be a store/,
    ],
    ['the home directory', (p) => ['domain', 'create', p.path], /is your home directory/],
    [
      "the program's own folder",
      () => ['domain', 'create', join(project, 'store')],
      /an update or an uninstall would take/,
    ],
    ['a build without a store', () => ['build', 'x'], /--domain ROOT is missing/],
    [
      'a bad number of seconds',
      (p) => ['build', 'x', '--domain', p.path, '--timeout', 'soon'],
      /a number of seconds/,
    ],
    ['resolve without a mode', () => ['resolve', 'x', 'y'], /--mode is missing/],
    [
      'quarantine rm without a name',
      (p) => ['quarantine', 'rm', p.at('store')],
      /Give their names, or --all/,
    ],
  ];
  it.each(cases)('%s', async (_, words, message) => {
    const place = new Place();
    await place.store();
    const { code, text, failure } = await failing(place, words(place));
    expect(code).toBe(2);
    expect(failure).toMatchObject({ stage: 'configuration', code: 'invalid_config', retryable: false });
    expect(text).toMatch(message);
  });

  it('a folder that is no store, a file, a folder with something else in it', async () => {
    const place = new Place();
    mkdirSync(place.at('folder'));
    writeFileSync(place.at('file'), '');
    const show = async (name: string) => await failing(place, ['domain', 'show', place.at(name)]);
    expect(await show('folder')).toMatchObject({
      code: 2,
      text: expect.stringContaining('has no domain.json') as string,
    });
    expect(await show('file')).toMatchObject({
      code: 2,
      text: expect.stringContaining('is not a directory') as string,
    });
    writeFileSync(place.at('folder', 'thesis.tex'), '');
    const create = await failing(place, ['domain', 'create', place.at('folder')]);
    expect(create.code).toBe(2);
    expect(create.text).toContain('it holds thesis.tex');
    expect(readdirSync(place.at('folder'))).toEqual(['thesis.tex']);
  });

  it('keys: no key, too short, one that begins several', async () => {
    const place = new Place();
    const root = await place.store();
    const keys = ['abcdef0', 'abcdef1'].map((start) => start.padEnd(64, '0'));
    for (const key of keys) mkdirSync(join(root, 'tmp', `${key}.1.00`));
    for (const command of ['show', 'remove', 'verify']) {
      const short = await failing(place, [command, root, 'abcde']);
      expect(short).toMatchObject({
        code: 2,
        text: expect.stringContaining('at least the first 6') as string,
      });
      expect((await failing(place, [command, root, 'not-a-key'])).code).toBe(2);
      const several = await failing(place, [command, root, 'abcdef']);
      expect(several.code).toBe(2);
      expect(several.failure.details['keys']).toEqual(keys);
      for (const key of keys) expect(several.text).toContain(key);
    }
  });

  it('an identity that is none', async () => {
    const place = new Place();
    const root = await place.store();
    for (const [content, message] of [
      ['{"a"', 'holds no identity'],
      ['{}', 'lacks schema_version'],
      ['[1]', 'must be an object'],
    ] as const) {
      writeFileSync(place.at('i.json'), content);
      expect(await failing(place, ['resolve', root, 'i.json', '--mode', 'preferred'])).toMatchObject({
        code: 2,
        text: expect.stringContaining(message) as string,
      });
    }
    expect((await failing(place, ['resolve', root, 'gone.json', '--mode', 'preferred'])).text).toContain(
      'it is not there',
    );
  });
});

describe('what a retry does not cure: 3', () => {
  it('another policy, which stays as it is', async () => {
    const place = new Place();
    const root = await place.store('store', '--max-store', '1GiB');
    const other = await failing(place, ['domain', 'create', root, '--max-store', '2GiB']);
    expect(other).toMatchObject({ code: 3, failure: { code: 'domain_policy_mismatch' } });
    expect(other.text).toContain('The policy of a store never changes');
    const serialized = await failing(place, [
      'domain',
      'create',
      root,
      '--admission',
      'serialized',
      '--max-store',
      '1GiB',
    ]);
    expect(serialized).toMatchObject({
      code: 3,
      text: expect.stringContaining('it is concurrent') as string,
    });
  });

  it('a store that others can write', async () => {
    const place = new Place();
    const root = await place.store();
    chmodSync(join(root, 'artifacts'), 0o770);
    const { code, text } = await failing(place, ['ls', root]);
    expect(code).toBe(3);
    expect(text).toContain(`${root}/artifacts can be written by others (chmod go-w it)`);
    chmodSync(join(root, 'artifacts'), 0o700);
    chmodSync(root, 0o720);
    expect((await failing(place, ['domain', 'create', root])).code).toBe(3);
  });

  it.runIf(isRoot)('a store of somebody else', async () => {
    const place = new Place();
    const root = await place.store();
    chownSync(join(root, 'deny'), 4321, 4321);
    const { code, text } = await failing(place, ['ls', root]);
    expect(code).toBe(3);
    expect(text).toContain(`${root}/deny belongs to user 4321 and not to you (0)`);
  });

  it('a link where a directory of the store should be', async () => {
    const place = new Place();
    const root = await place.store();
    native.renameat(native.open(root, 0), 'quarantine', native.open(place.path, 0), 'elsewhere');
    symlinkSync(place.at('elsewhere'), join(root, 'quarantine'));
    const { code, text } = await failing(place, ['quarantine', 'ls', root]);
    expect(code).toBe(3);
    expect(text).toContain(`${root}/quarantine is not a directory`);
  });

  it('a key that is nowhere, whole or in part', async () => {
    const place = new Place();
    const root = await place.store();
    const whole = await failing(place, ['show', root, 'f'.repeat(64)]);
    expect(whole).toMatchObject({ code: 3, failure: { stage: 'lookup', code: 'local_miss' } });
    expect(whole.text).toContain('weightroom resolve');
    const part = await failing(place, ['remove', root, 'ffffff']);
    expect(part).toMatchObject({ code: 3, failure: { code: 'local_miss' } });
    const verified = await place.json('verify', root, 'f'.repeat(64));
    expect(verified).toMatchObject({
      code: 3,
      document: { artifacts: [{ status: 'missing' }], failure: { code: 'local_miss' } },
    });
  });

  it('a broken checkpoint: all its problems at once, and the build document says failed', async () => {
    const place = new Place();
    const root = await place.store();
    const checkpoint = new CheckpointFolder(place.at('model'))
      .file('a.safetensors', lfsPointer(1000))
      .index({ x: 'a.safetensors', y: 'gone.safetensors' }).path;
    const { code, text, failure } = await failing(place, ['build', checkpoint, '--domain', root]);
    expect(code).toBe(3);
    expect(failure).toMatchObject({ stage: 'canonical_loading', code: 'canonical_source_failed' });
    expect(text).toContain('git lfs pull');
    expect(text).toMatch(/ {2}- .*gone\.safetensors/);
    const { document } = await place.json('build', checkpoint, '--domain', root);
    expect(document).toMatchObject({ status: 'failed', key: null, artifact_bytes: null });
    expect(readdirSync(join(root, 'tmp'))).toEqual([]);
  });

  it('a flipped payload byte (case S5): seen with --full only, and the text says which level was used', async () => {
    const place = new Place();
    const root = await place.store();
    const checkpoint = place.checkpoint();
    const key = await place.built(root, checkpoint);
    flipLastByte(root, key);

    const metadata = await place.run('verify', root);
    expect(metadata.code).toBe(0);
    expect(metadata.stdout).toContain('Level: manifest and metadata only; payload bytes were not read');
    const full = await place.run('verify', root, '--full');
    expect(full.code).toBe(3);
    expect(full.stdout).toContain('Level: full: every payload byte was hashed');
    expect(full.stdout).toContain('checksum_mismatch');
    expect(full.stdout).toContain('Nothing was changed');
    expect((await place.run('verify', root, '--full', '-q')).stdout).toBe(`${key}\n`);
    const { document } = await place.json('verify', root, key, '--full');
    expect(document).toMatchObject({
      level: 'full_checksum',
      valid: 0,
      artifacts: [{ key, status: 'invalid', failure: { code: 'checksum_mismatch' } }],
      failure: { stage: 'validation' },
    });
    expect(readdirSync(join(root, 'deny'))).toEqual([]);

    // A loader with full validation denies it; from then on it is denied to all, until it is built again.
    writeFileSync(place.at('shown.json'), (await place.run('show', root, key, '--json')).stdout);
    const resolved = await place.json('resolve', root, 'shown.json', '--mode', 'required', '--full');
    expect(resolved).toMatchObject({ document: { outcome: 'failed' } });
    expect((await place.run('ls', root)).stdout).toMatch(/denied: checksum_mismatch/);
    expect((await place.json('verify', root)).document.artifacts[0]?.status).toBe('denied');
    expect((await place.run('show', root, key)).stdout).toContain('denied   checksum_mismatch');

    expect((await place.json('build', checkpoint, '--domain', root)).document).toMatchObject({
      status: 'built',
      key,
    });
    expect((await place.json('verify', root, '--full')).code).toBe(0);
    const [quarantined] = (await place.json('quarantine', 'ls', root)).document.entries as [EntryDocument];
    expect(quarantined).toMatchObject({ key, reason: 'validation_failure' });
    const removed = await place.json('quarantine', 'rm', root, quarantined.name.slice(0, 70));
    expect(removed).toMatchObject({ code: 0, document: { removed_bytes: quarantined.bytes } });
    expect((await place.run('quarantine', 'ls', root)).stdout).toBe('Nothing is in quarantine.\n');
    expect((await place.run('quarantine', 'ls', root, '-q')).stdout).toBe('');
    expect((await place.json('verify', root)).document.valid).toBe(1);
  });

  it('a name that is no quarantine entry', async () => {
    const place = new Place();
    const root = await place.store();
    const { code, document } = await place.json('quarantine', 'rm', root, '../artifacts');
    expect(code).toBe(2);
    expect(document.failure.code).toBe('invalid_config');
  });

  it('what is only in quarantine is shown with what is left of it', async () => {
    const place = new Place();
    const root = await place.store();
    const checkpoint = place.checkpoint();
    const key = await place.built(root, checkpoint, '--revision', 'one');
    const other = await place.built(root, checkpoint, '--revision', 'two');
    const [artifacts, quarantine] = ['artifacts', 'quarantine'].map((name) =>
      native.open(join(root, name), 0),
    ) as [number, number];
    native.renameat(artifacts, key, quarantine, `${key}.publication_failure.00ff`);
    const { code, document } = await place.json('show', root, key);
    expect(code).toBe(3);
    expect(document).toMatchObject({
      key,
      check: { status: 'miss' },
      failure: { code: 'local_miss' },
      states: [{ state: 'quarantined', reason: 'publication_failure' }],
      nearest: [{ key: other, differences: [{ field: 'source.revision', wanted: 'one', stored: 'two' }] }],
    });
    expect((await place.run('show', root, key)).stdout).toContain('asked for "one", stored "two"');
  });
});

describe('what can succeed later: 4', () => {
  it('a store that is not there now', async () => {
    const place = new Place();
    const { code, text } = await failing(place, ['ls', place.at('unmounted')]);
    expect(code).toBe(4);
    expect(text).toContain('is the disk mounted, is the path right?');
  });

  it('a full store', async () => {
    const place = new Place();
    const root = await place.store('store', '--max-store', '20KiB', '--admission', 'serialized');
    const { code, failure } = await failing(place, ['build', place.checkpoint(), '--domain', root]);
    expect(code).toBe(4);
    expect(failure).toMatchObject({ stage: 'capacity', code: 'store_limit_exceeded' });
    expect(readdirSync(join(root, 'tmp'))).toEqual([]);
  });

  it('locks that somebody holds: builds time out, removals and checks refuse, and all name the holder', async () => {
    const place = new Place();
    const root = await place.store('store', '--max-store', '1GiB', '--admission', 'serialized');
    const key = await place.built(root, place.checkpoint());
    expect((await place.run('locks', root)).stdout).toMatch(
      /^Nobody holds a lock of this store; \d+ locks are free\.$/m,
    );

    hold(join(root, 'locks', 'domain-build.lock'), true);
    const timedOut = await place.json(
      'build',
      place.checkpoint('other', 2),
      '--domain',
      root,
      '--timeout',
      '0.2',
    );
    expect(timedOut).toMatchObject({
      code: 4,
      document: {
        status: 'timeout',
        artifact_bytes: null,
        failure: { code: 'active_build_timeout', retryable: true },
      },
    });

    hold(join(root, 'locks', `${key}.artifact.lock`), false);
    const removing = await failing(place, ['remove', root, key]);
    expect(removing).toMatchObject({ code: 4, failure: { code: 'active_lease' } });
    expect(removing.text).toContain(`process ${process.pid} (`);
    expect((await place.json('verify', root)).code).toBe(0);

    const { document } = await place.json('locks', root);
    expect(document.held).toBe(2);
    const held = document.locks.filter(({ state }) => state === 'held');
    expect(held).toMatchObject([
      { purpose: 'artifact', key, holders: [{ pid: process.pid, mode: 'shared' }] },
      { purpose: 'admission', key: null, holders: [{ pid: process.pid, mode: 'exclusive' }] },
    ]);
    const text = (await place.run('locks', root)).stdout;
    expect(text).toMatch(
      new RegExp(`^artifact +${key.slice(0, 12)} +shared \\(lease\\) +${process.pid} +\\S`, 'm'),
    );
    expect(text).toMatch(new RegExp(`^admission of builds +exclusive +${process.pid} +\\S`, 'm'));
  });

  it('an artifact lock held by a publisher: verify is busy, resolve follows its mode', async () => {
    const place = new Place();
    const root = await place.store();
    const key = await place.built(root, place.checkpoint());
    writeFileSync(place.at('shown.json'), (await place.run('show', root, key, '--json')).stdout);
    hold(join(root, 'locks', `${key}.artifact.lock`), true);
    expect(await place.json('verify', root)).toMatchObject({
      code: 4,
      document: { artifacts: [{ status: 'busy' }] },
    });
    const resolve = async (mode: string) =>
      await place.json('resolve', root, 'shown.json', '--mode', mode, '--timeout', '0.1');
    expect(await resolve('preferred')).toMatchObject({
      code: 0,
      document: { outcome: 'canonical_fallback' },
    });
    expect(await resolve('required')).toMatchObject({
      code: 4,
      document: {
        outcome: 'failed',
        failure: { code: 'active_build_timeout' },
        attempts: [{ result: 'timeout' }],
      },
    });
  });
});

function hold(path: string, exclusive: boolean): void {
  const fd = native.open(path, 2);
  expect(native.flockTry(fd, exclusive)).toBe(true);
  onTestFinished(() => native.close(fd));
}

function flipLastByte(root: string, key: string): void {
  const folder = join(root, 'artifacts', key);
  const name = readdirSync(folder).find((entry) => entry.endsWith('.safetensors')) as string;
  const path = join(folder, name);
  const sizeBytes = native.lstat(path).sizeBytes;
  chmodSync(path, 0o600);
  const fd = openSync(path, 'r+');
  const last = Buffer.alloc(1);
  native.preadSync(fd, last, sizeBytes - 1);
  writeSync(fd, Buffer.from([(last[0] as number) ^ 1]), 0, 1, sizeBytes - 1);
  closeSync(fd);
  chmodSync(path, 0o444);
}
