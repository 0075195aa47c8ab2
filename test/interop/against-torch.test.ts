/**
 * The main job against torch: a real model, and a checkpoint of every float16 and a dense sample of float32,
 * are built in both representations, and every tensor is held against torch's own view of the same file, bit
 * for bit, also through the Python package's lookup.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBuild } from '../../src/production/build-supervisor.ts';
import { createDomain, type Domain } from '../../src/store/domain.ts';
import { ArtifactIdentity } from '../../src/store/identity.ts';
import { inspectArtifact } from '../../src/store/lookup.ts';
import { encodeHeader } from '../../src/store/safetensors.ts';
import { pythonEnvironment } from './environment.ts';
import { PythonSide } from './python-side.ts';
import { ensureModel } from './real-model.ts';

type Reference = Record<string, { dtype: string; shape: number[]; sha256: string }>;

let base: string;
let checkpoints: Record<'the real model' | 'every kind of number', string>;
let domain: Domain;
let python: PythonSide;

beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'weightroom-torch-'));
  checkpoints = { 'the real model': ensureModel(pythonEnvironment()), 'every kind of number': everyNumber() };
  const created = await createDomain({ root: join(base, 'store') });
  if (!created.ok) throw new Error(created.failure.message);
  domain = created.value.domain;
  python = await PythonSide.start();
});

afterAll(async () => {
  await python.close();
  for (const key of readdirSync(join(domain.root, 'artifacts')))
    chmodSync(join(domain.root, 'artifacts', key), 0o700);
  rmSync(base, { recursive: true, force: true });
});

/** All 2^16 halves, and float32 around every exponent: ties, subnormals, infinities, NaNs with payloads. */
function everyNumber(): string {
  const folder = join(base, 'numbers');
  mkdirSync(folder);
  const halves = new Uint16Array(2 ** 16).map((_, index) => index);
  const lows = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x4000, 0xc000];
  const floats = new Uint32Array(2 ** 16 * lows.length).map(
    (_, index) => ((index >>> 3) << 16) | (lows[index & 7] as number),
  );
  const tensors = [
    { name: 'floats', dtype: 'F32', shape: [floats.length], nbytes: floats.byteLength },
    { name: 'halves', dtype: 'F16', shape: [256, 256], nbytes: halves.byteLength },
  ];
  const bytes = [encodeHeader(tensors), Buffer.from(floats.buffer), Buffer.from(halves.buffer)];
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat(bytes));
  return folder;
}

function reference(checkpoint: string, representation: string): Reference {
  const { interpreter, packages, env } = pythonEnvironment();
  const script = join(import.meta.dirname, 'reference.py');
  const output = execFileSync(
    interpreter,
    [script, packages, join(checkpoint, 'model.safetensors'), representation],
    {
      env,
      maxBuffer: 1 << 26,
    },
  );
  return JSON.parse(output.toString()) as Reference;
}

const cases = (['the real model', 'every kind of number'] as const).flatMap((name) =>
  (['preserve', 'bf16'] as const).map((representation) => ({ name, representation })),
);

test.each(cases)(
  '$name, $representation: equal to what torch makes of it',
  async ({ name, representation }) => {
    const checkpoint = checkpoints[name];
    const result = await startBuild({ checkpoint, domain: domain.root, representation }).result;
    expect(result).toMatchObject({ status: 'built', failure: null });
    if (result.identity === null) throw new Error('a build has an identity');
    const identity = ArtifactIdentity.of(result.identity);
    expect(identity.key).toBe(result.key);

    const expected = reference(checkpoint, representation);
    const mine = await inspectArtifact(domain, identity, { validation: 'full_checksum' });
    if (mine.status !== 'hit') throw new Error(JSON.stringify(mine));
    const tensors = Object.fromEntries(
      mine.lease.manifest.tensors.map(({ name, dtype, shape, sha256 }) => [name, { dtype, shape, sha256 }]),
    );
    mine.lease.close();
    expect(Object.keys(expected).length).toBeGreaterThan(name === 'the real model' ? 100 : 1);
    expect(tensors).toEqual(expected);

    // The digests in the manifest are claims; these are of the bytes that the package maps.
    const { store } = await python.open({ root: domain.root });
    const theirs = await python.lookup(store, identity.canonical, { validation: 'full_checksum' });
    expect(theirs.status).toBe('hit');
    expect(
      Object.fromEntries(theirs.content?.tensors?.map(({ name, sha256 }) => [name, sha256]) ?? []),
    ).toEqual(Object.fromEntries(Object.entries(expected).map(([name, { sha256 }]) => [name, sha256])));

    // Built again, it is there already.
    expect(await startBuild({ checkpoint, domain: domain.root, representation }).result).toMatchObject({
      status: 'hit',
      key: result.key,
    });
  },
);
