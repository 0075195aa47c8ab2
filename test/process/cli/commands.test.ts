/** Every command where all is well: what people read, what programs read, and that both say the same. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { Place, type CommandDocument, type EntryDocument } from './weightroom.ts';

describe('domain', () => {
  it('is made once, found again, and shown', async () => {
    const place = new Place();
    const root = place.at('store');
    const made = await place.json('domain', 'create', root, '--max-store', '1.5GiB', '--min-free', '1MiB');
    expect(made).toMatchObject({
      code: 0,
      stderr: '',
      document: {
        root,
        existing: false,
        admission: 'concurrent',
        max_store_bytes: 1.5 * 1024 ** 3,
        max_artifact_bytes: null,
        min_free_bytes: 1024 ** 2,
        notice: null,
      },
    });
    const again = await place.json('domain', 'create', root, '--max-store', '1.5GiB', '--min-free', '1MiB');
    expect(again).toMatchObject({
      code: 0,
      document: { existing: true, domain_uuid: made.document.domain_uuid },
    });
    const shown = await place.json('domain', 'show', root);
    expect(shown.document).toMatchObject({ root, totals: { ready: { entries: 0, bytes: 0 } } });
    expect((await place.run('domain', 'show', root)).stdout).toContain('store limit     1.5 GiB');
  });

  it('a serialized one says which workers will refuse to start on it', async () => {
    const place = new Place();
    const words = ['domain', 'create', place.at('s'), '--admission', 'serialized', '--max-store', '1GiB'];
    const { stdout } = await place.run(...words);
    expect(stdout).toContain('Workers that do not know admission will refuse to start on it');
    const { document } = await place.json(...words);
    expect(document.notice).toContain('will refuse to start');
    expect(document.existing).toBe(true);
  });
});

describe('the main job', () => {
  it('build, hit, ls, show, verify, resolve, remove', async () => {
    const place = new Place();
    const root = await place.store();
    const checkpoint = place.checkpoint('models--org--tiny/snapshots/abc123');

    const built = await place.json('build', checkpoint, '--domain', root, '--representation', 'bf16');
    expect(built.code).toBe(0);
    expect(Object.keys(built.document as object)).toEqual([
      'status',
      'key',
      'artifact_bytes',
      'elapsed_ms',
      'failure',
    ]);
    expect(built.document).toMatchObject({ status: 'built', failure: null });
    const { key } = built.document as { key: string };
    expect(
      (await place.json('build', checkpoint, '--domain', root, '--representation', 'bf16')).document,
    ).toMatchObject({
      status: 'hit',
      key,
      artifact_bytes: built.document.artifact_bytes,
    });

    const listed = (await place.json('ls', root)).document;
    expect(listed.entries).toHaveLength(1);
    expect(listed.entries[0]).toMatchObject({
      key,
      state: 'ready',
      model_id: 'org/tiny',
      revision: 'abc123',
      representation: 'bf16',
      dtype: 'torch.bfloat16',
      tensor_parallel_rank: 0,
    });
    const [entry] = listed.entries as [EntryDocument];
    expect(listed.store_bytes).toBe(listed.other_bytes + entry.bytes);
    const table = (await place.run('ls', root)).stdout;
    expect(table).toMatch(
      new RegExp(`^${key.slice(0, 12)} +ready +[\\d.]+ (?:B|KiB) +org/tiny model +bf16 bfloat16 +0/1 `, 'm'),
    );

    const shown = (await place.json('show', root, key.slice(0, 6), '--tensors')).document;
    expect(shown).toMatchObject({
      key,
      check: { status: 'valid', level: 'manifest_and_metadata' },
      tensor_count: 3,
    });
    expect(shown.tensors.map(({ name }) => name)).toEqual(['a.weight', 'b.weight', 'c.bias']);
    expect((await place.run('show', root, key)).stdout).toContain('payload bytes were not read');

    for (const level of [[], ['--full']]) {
      const { code, document } = await place.json('verify', root, ...level);
      expect(code).toBe(0);
      expect(document).toMatchObject({ valid: 1, bytes: entry.bytes, failure: null });
      expect(document.artifacts[0]).toMatchObject({ key, status: 'valid', bytes: document.bytes });
      expect(document.elapsed_ms).toBeGreaterThanOrEqual(document.artifacts[0]?.elapsed_ms ?? Infinity);
    }

    writeFileSync(place.at('identity.json'), JSON.stringify(shown.identity));
    const resolved = await place.json('resolve', root, 'identity.json', '--mode', 'required');
    expect(resolved).toMatchObject({
      code: 0,
      document: { key, outcome: 'local_hit', failure: null, nearest: [] },
    });

    expect(await place.json('remove', root, key.toUpperCase())).toMatchObject({
      code: 0,
      document: { key, removed: true, removed_bytes: entry.bytes },
    });
    expect(await place.json('remove', root, key)).toMatchObject({
      code: 0,
      document: { key, removed: false },
    });
    expect((await place.json('ls', root)).document.entries).toEqual([]);
    expect((await place.run('ls', root)).stdout).toContain('has no artifacts yet');
  });

  it('quiet commands print the bare answer', async () => {
    const place = new Place();
    const root = await place.store();
    const key = await place.built(root, place.checkpoint());
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(await place.run('ls', root, '--quiet')).toMatchObject({ stdout: `${key}\n`, stderr: '' });
    expect(await place.run('verify', root, '-q')).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect(await place.run('locks', root, '-q')).toMatchObject({ code: 0, stdout: '', stderr: '' });
  });
});

describe('an identity that misses (case S4)', () => {
  it('shows the nearest artifact and exactly what differs, by mode', async () => {
    const place = new Place();
    const root = await place.store();
    const key = await place.built(root, place.checkpoint(), '--revision', 'old');
    const { identity } = (await place.json('show', root, key)).document;
    identity.source.revision = 'new';
    identity.producer.version = '2';

    const input = JSON.stringify({ identity });
    const resolve = async (...words: string[]) =>
      await place.start(['resolve', root, '-', ...words], { input }).ended;

    const preferred = await resolve('--mode', 'preferred');
    expect(preferred.code).toBe(0);
    expect(preferred.stdout).toContain('canonical_fallback');
    expect(preferred.stdout).toMatch(/source\.revision +asked for "new", stored "old"/);
    expect(preferred.stdout).toMatch(/producer\.version +asked for "2", stored "1"/);
    expect(preferred.stdout).toContain('2 fields differ');

    const required = await resolve('--mode', 'required', '--json');
    expect(required.code).toBe(4);
    const document = JSON.parse(required.stdout) as CommandDocument;
    expect(document).toMatchObject({ outcome: 'failed', failure: { code: 'producer_unavailable' } });
    expect(document.attempts[0]).toMatchObject({ stage: 'lookup', result: 'miss', action: 'fail_startup' });
    expect(document.nearest).toEqual([
      {
        key,
        state: 'ready',
        name: key,
        differences: [
          { field: 'source.revision', wanted: 'new', stored: 'old' },
          { field: 'producer.version', wanted: '2', stored: '1' },
        ],
      },
    ]);
  });

  it('an identity keeps its key through show --json, floats and big integers included', async () => {
    const place = new Place();
    const root = await place.store();
    const key = await place.built(root, place.checkpoint());
    const { stdout } = await place.run('show', root, key, '--json');
    const changed = stdout.replace(
      '"metadata":{}',
      '"metadata":{"scale":1.0,"big":123456789012345678901234567890}',
    );
    writeFileSync(place.at('shown.json'), changed);
    const first = (await place.json('resolve', root, 'shown.json', '--mode', 'preferred')).document;
    writeFileSync(place.at('integer.json'), changed.replace('1.0', '1'));
    const second = (await place.json('resolve', root, 'integer.json', '--mode', 'preferred')).document;
    expect(first.outcome).toBe('canonical_fallback');
    expect(first.key).not.toBe(second.key);
    expect(first.nearest[0]?.differences).toContainEqual({
      field: 'adaptation.metadata.big',
      wanted: expect.anything() as unknown,
      stored: null,
    });
  });
});

describe('sample', () => {
  it('needs nothing, leaves a store with an artifact, and finds both the second time', async () => {
    const place = new Place();
    const first = await place.json('sample', '--size', '300kB');
    expect(first.code).toBe(0);
    expect(first.document).toMatchObject({
      checkpoint: { existing: false },
      domain: { root: place.at('data/weightroom/store'), admission: 'serialized', existing: false },
      build: { status: 'built' },
      failure: null,
    });
    const second = await place.json('sample', '--size', '300kB');
    expect(second.document).toMatchObject({
      checkpoint: { existing: true },
      domain: { existing: true },
      build: { status: 'hit', key: first.document.build.key },
    });
    const third = await place.run('sample', '--size', '300kB');
    expect(third.stdout).toContain(`weightroom ls ${place.at('data/weightroom/store')}`);
    expect(readdirSync(place.at('data/weightroom')).sort()).toEqual(['samples', 'store']);
  });
});

describe('help and version', () => {
  it('are there without an addon, a store or a command', async () => {
    const place = new Place();
    const { version } = JSON.parse(
      readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    ) as { version: string };
    expect(await place.run('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
    expect((await place.json('--version')).document).toEqual({ version });
    for (const words of [['--help'], ['-h'], ['help']]) {
      expect((await place.run(...words)).stdout).toContain('Exit codes:');
    }
    expect((await place.run('domain', '--help')).stdout).toContain('domain create');
    expect((await place.run('help', 'domain', 'create')).stdout).toContain('--max-store SIZE');
    expect((await place.run('verify', '--help')).stdout).toContain(
      'weightroom verify /var/lib/weights --full',
    );
    expect(existsSync(place.at('data'))).toBe(false);
  });
});

describe('names from disk', () => {
  it('cannot act on the terminal, in tables and in documents', async () => {
    const place = new Place();
    const root = await place.store();
    const evil = 'evil\x1b[2J\u202e\n';
    const key = await place.built(root, place.checkpoint(), '--model-id', evil);
    mkdirSync(join(root, `stray\x1b]0;title\x07`));
    mkdirSync(join(root, 'tmp', `${'a'.repeat(64)}.1\x9b`));
    for (const words of [
      ['ls', root],
      ['show', root, key],
      ['domain', 'show', root],
      ['ls', root, '--json'],
    ]) {
      const { code, stdout } = await place.run(...words);
      expect(code).toBe(0);
      // eslint-disable-next-line no-control-regex -- the point of the test
      expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
    }
    expect((await place.run('ls', root)).stdout).toContain('evil\\x1b[2J\\u202e\\x0a');
    expect((await place.json('ls', root)).document.entries.map(({ model_id: id }) => id)).toContain(evil);
  });
});

describe('a broken store', () => {
  it('is still listed: no manifest, no JSON, no directory, another identity', async () => {
    const place = new Place();
    const root = await place.store();
    const key = await place.built(root, place.checkpoint());
    const manifest = readFileSync(join(root, 'artifacts', key, 'manifest.json'));
    const broken = (digit: string, content: string | Buffer | null): void => {
      mkdirSync(join(root, 'artifacts', digit.repeat(64)));
      if (content !== null)
        writeFileSync(join(root, 'artifacts', digit.repeat(64), 'manifest.json'), content);
    };
    broken('1', null);
    broken('2', '{"identity": 3');
    broken('3', '[]');
    broken('4', manifest);
    broken('5', '{"identity": {"schema_version": 1}}');
    writeFileSync(join(root, 'artifacts', '6'.repeat(64)), '');
    const { code, document } = await place.json('ls', root);
    expect(code).toBe(0);
    const problems = Object.fromEntries(
      document.entries.map(({ key: entryKey, problem }) => [entryKey.slice(0, 2), problem]),
    );
    expect(problems[key.slice(0, 2)]).toBeNull();
    expect(problems['11']).toContain('it is not there');
    expect(problems['22']).toContain('not valid JSON');
    expect(problems['33']).toContain('must contain an object');
    expect(problems['44']).toContain(`holds the identity of artifact ${key}`);
    expect(problems['55']).toContain('lacks source');
    expect(problems['66']).toContain('not a directory');
    const verified = await place.json('verify', root);
    expect(verified.code).toBe(3);
    expect(verified.document.artifacts.filter(({ status }) => status === 'valid')).toHaveLength(1);
    expect(verified.document.artifacts).toHaveLength(7);
    expect((await place.run('show', root, '4'.repeat(64))).stdout).toContain('holds the identity of');
  });
});
