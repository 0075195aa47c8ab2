/** find and index, as people have them. */
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { Place } from './weightroom.ts';

async function builtStore(): Promise<{ place: Place; root: string; key: string }> {
  const place = new Place();
  const root = place.at('store');
  await place.run('domain', 'create', root);
  const checkpoint = place.checkpoint('tiny');
  const { document } = await place.json('build', checkpoint, '--domain', root);
  return { place, root, key: document.key };
}

describe('the catalog on the command line', () => {
  it('find by what the artifact is called, by tensor, by dtype and shape', async () => {
    const { place, root, key } = await builtStore();
    const { document } = await place.json('show', root, key, '--tensors');
    const [tensor] = document.tensors as { name: string; dtype: string; shape: number[] }[];
    if (tensor === undefined) throw new Error('no tensors');
    const found = async (...words: string[]): Promise<string> =>
      (await place.run('find', root, ...words, '--quiet')).stdout.trim();
    expect(await found()).toBe(key);
    expect(await found('TINY', tensor.name.slice(0, 6))).toBe(key);
    expect(await found(key.slice(0, 20))).toBe(key);
    expect(await found('nobody-has-this')).toBe('');
    const shape = tensor.shape.join('x');
    expect(await found(tensor.name, '--dtype', tensor.dtype, '--shape', shape)).toBe(key);
    expect(await found('--shape', '7x7x7')).toBe('');
    const text = (await place.run('find', root, tensor.name)).stdout;
    expect(text).toContain(tensor.name);
    expect(text).toContain('1 artifact, 1 matching tensor.');
    const nothing = await place.json('find', root, 'nobody-has-this');
    expect(nothing.document).toEqual({ root, artifacts: 0, tensors: 0, entries: [] });
    expect((await place.run('find', root, '--limit', 'x')).code).toBe(2);
    expect((await place.run('find', root, ...Array.from({ length: 17 }, () => 'w'))).code).toBe(2);
  });

  it('status, check and rebuild; a row that is wrong is named', async () => {
    const { place, root, key } = await builtStore();
    const file = place.at('cache', 'weightroom', 'catalog.sqlite');
    const status = async (): Promise<unknown> => (await place.json('index', 'status', root)).document;
    expect(await status()).toMatchObject({ path: file, usable: true, problem: null, entries: 0 });
    expect(await place.json('index', 'check', root)).toMatchObject({
      code: 0,
      document: {
        wrong: 0,
        outdated: 1,
        differences: [{ entry: `ready/${key}`, field: 'row', catalog: null }],
      },
    });
    await place.run('find', root);
    expect(await status()).toMatchObject({ entries: 1, manifests: 1, tensor_lists: 1 });
    expect((await place.run('index', 'check', root)).stdout).toContain('is what the store is');
    const database = new Database(file);
    database.exec(`UPDATE entry SET model = 'wrong'`);
    database.close();
    expect(await place.json('index', 'check', root)).toMatchObject({
      code: 3,
      document: { wrong: 1, differences: [{ kind: 'wrong', field: 'model', catalog: 'wrong' }] },
    });
    expect((await place.json('index', 'rebuild', root)).document).toMatchObject({ root, entries: 1 });
    expect((await place.json('index', 'check', root)).document).toMatchObject({ wrong: 0, outdated: 0 });
    rmSync(place.at('cache'), { recursive: true });
    expect((await place.run('find', root, '--quiet')).stdout.trim()).toBe(key);
  });

  it('a damaged file is begun anew, and it is said', async () => {
    const { place, root, key } = await builtStore();
    await place.run('find', root);
    const file = place.at('cache', 'weightroom', 'catalog.sqlite');
    writeFileSync(file, 'no database');
    const { code, stdout, stderr } = await place.run('find', root);
    expect({ code, found: stdout.includes(key.slice(0, 12)) }).toEqual({ code: 0, found: true });
    expect(stderr).toContain('damaged');
    expect(readFileSync(`${file}.damaged`, 'utf8')).toBe('no database');
    expect((await place.run('find', root)).stderr).toBe('');
  });

  it('a manifest that changed by hand is read again', async () => {
    const { place, root, key } = await builtStore();
    await place.run('find', root);
    const manifest = join(root, 'artifacts', key, 'manifest.json');
    expect(existsSync(manifest)).toBe(true);
    chmodSync(manifest, 0o644);
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replaceAll('tiny', 'tidy'));
    expect((await place.run('find', root, 'tidy', '--quiet')).stdout.trim()).toBe(key);
    expect((await place.run('find', root, 'tiny', '--quiet')).stdout.trim()).toBe('');
  });
});
