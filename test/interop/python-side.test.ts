/** The Python side by itself: that the driver and its client work, so that a later failure is about the two stores. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { fillBytes, PythonDied, PythonError, PythonSide, type PythonTensor } from './python-side.ts';

const identity = (model: string) =>
  JSON.stringify({
    schema_version: 1,
    source: { model_id: model, revision: 'r1', fingerprint: 'f1', metadata: {} },
    component: { name: 'transformer', ownership: 'exclusive', metadata: {} },
    representation: { name: 'plain', dtype: 'bfloat16', metadata: {} },
    layout: {
      name: 'contiguous',
      tensor_parallel_size: 1,
      tensor_parallel_rank: 0,
      sequence_parallel_size: 1,
      sequence_parallel_backend: 'none',
      metadata: {},
    },
    adaptation: { kind: 'base', fingerprint: null, metadata: {} },
    producer: {
      producer_id: 'p',
      version: '1',
      implementation_fingerprint: 'i',
      manifest_schema: 'm1',
      restorer_schema: 'r1',
    },
  });

const tensors: readonly PythonTensor[] = [
  { name: 'a.weight', shape: [8, 4], dtype: 'bfloat16', fill: 'seed' },
  { name: 'b.mask', shape: [5], dtype: 'bool', kind: 'buffer', role: 'mask', fill: 'seed' },
  { name: 'c.data', shape: [2], dtype: 'torch.float32', data: new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]) },
  { name: 'd.empty', shape: [0, 3], dtype: 'float16' },
];
const files = [
  { name: 'one.safetensors', tensors: ['a.weight', 'd.empty'] },
  { name: 'two.safetensors', tensors: ['c.data', 'b.mask'], ordered: false },
];

const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');

let python: PythonSide;
let root: string;

beforeAll(async () => {
  python = await PythonSide.start();
});

afterAll(async () => {
  await python.close();
});

beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), 'weightroom-python-'));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

test('runs the pinned package and says what it can do', async () => {
  const info = await python.ping();
  expect(info.versions.vllmOmni).toBe('0.30.0');
  expect(info.features).toMatchObject({ cleanupQuarantined: false, serializedAdmission: false });
  expect(info.pid).toBe(python.pid);
});

test('canonicalizes text and bytes as Python does', async () => {
  expect(await python.canonical('{"b":1.0,"a":[12345678901234567890,-0]}')).toEqual({
    text: '{"a":[12345678901234567890,0],"b":1.0}',
    sha256: sha256('{"a":[12345678901234567890,0],"b":1.0}'),
  });
  expect((await python.canonical('"\\ud800\u007f"')).text).toBe('"\\ud800\\u007f"');
  expect((await python.canonical('"\ud800"')).text).toBe('"\\ud800"');
  expect((await python.canonical(Buffer.from('\ufeff{"a":1e16}'))).text).toBe('{"a":1e+16}');
  await expect(python.canonical('1e400')).rejects.toMatchObject({ type: 'IdentityValidationError' });
});

test('builds an artifact and finds it at both levels', async () => {
  const { store, domainUuid, policyVersion } = await python.open({ root });
  expect(domainUuid).toMatch(/^[0-9a-f]{32}$/);
  expect(policyVersion).toBe(1);
  const built = await python.build(store, identity('m'), { tensors, files, formatMetadata: '{"x":1.0}' });
  expect(built).toMatchObject({ status: 'built', failure: null, lease: null });
  expect(built.content?.manifest).toContain('"format_metadata":{"x":1.0}');

  for (const validation of ['manifest_and_metadata', 'full_checksum'] as const) {
    const found = await python.lookup(store, identity('m'), { validation, timeoutSeconds: 1 });
    expect(found.status).toBe('hit');
    expect(found.content?.provenance.validationLevel).toBe(validation);
    expect(found.content?.tensors).toEqual([
      { name: 'a.weight', sha256: sha256(fillBytes('seed', 64)) },
      { name: 'b.mask', sha256: sha256(fillBytes('seed', 5, 'bool')) },
      { name: 'c.data', sha256: sha256(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8])) },
      { name: 'd.empty', sha256: sha256('') },
    ]);
    // The bytes at a region's offset are the tensor's: the mapping is of the payload itself.
    const { key } = await python.identity(identity('m'));
    const [region, ...others] = found.content?.mappedRegions ?? [];
    expect(region).toMatchObject({ fileName: 'one.safetensors', length: 64, readOnly: true });
    expect(others).toHaveLength(1);
    const payload = readFileSync(path.join(root, 'artifacts', key, 'one.safetensors'));
    const offset = region?.offset ?? -1;
    expect(payload.subarray(offset, offset + 64)).toEqual(Buffer.from(fillBytes('seed', 64)));
  }
  expect((await python.lookup(store, identity('other'))).status).toBe('miss');

  const inspected = await python.inspectArtifact(store, identity('m'), 'full_checksum');
  expect(inspected).toMatchObject({ status: 'hit', buildLockActive: false, artifactLockActive: false });
  expect(inspected.manifest).toBe(built.content?.manifest);
});

test('refuses to clean up under a lease, and shows the domain', async () => {
  const { store, domainUuid } = await python.open({ root, capacity: { maxStoreBytes: 1 << 20 } });
  const built = await python.build(store, identity('m'), { tensors, files, keepLease: true });
  const { key } = await python.identity(identity('m'));
  const lock = path.join(root, 'locks', `${key}.artifact.lock`);
  expect(await python.lockIsActive(lock)).toBe(true);
  expect(await python.cleanup(store, identity('m'))).toMatchObject({
    stage: 'lifecycle',
    code: 'active_lease',
    retryable: true,
  });

  const domain = await python.inspectDomain(store);
  expect(domain).toMatchObject({ domainUuid, scope: 'node', domainId: 'node', maxStoreBytes: 1 << 20 });
  expect(domain.inventory).toMatchObject([
    { artifactKey: key, state: 'ready', storageName: key, reason: null },
  ]);

  await python.closeLease(built.lease ?? '');
  expect(await python.cleanup(store, identity('m'))).toBeNull();
  expect((await python.inspectDomain(store)).inventory).toEqual([]);
});

test('holds locks and answers meanwhile', async () => {
  const file = path.join(root, 'some.lock');
  const first = await python.holdLock(file, { exclusive: false });
  const second = await python.holdLock(file, { exclusive: false, nonblocking: true });
  await expect(python.holdLock(file, { nonblocking: true })).rejects.toMatchObject({
    type: 'FileLockTimeoutError',
  });
  await python.releaseLock(second);
  const waiting = python.holdLock(file);
  expect((await python.ping()).pid).toBe(python.pid);
  await python.releaseLock(first);
  await python.releaseLock(await waiting);
  expect(await python.lockIsActive(file)).toBe(false);
});

test('holds a producer inside its build, and lets it go on, fail or die', async () => {
  const { store } = await python.open({ root });
  const first = python.holdBuild(store, identity('m'), { tensors });
  expect(await first.producing).toBe(true);
  const second = python.holdBuild(store, identity('m'), { tensors });
  expect((await python.build(store, identity('m'), { tensors, timeoutSeconds: 0.05 })).failure).toMatchObject(
    {
      code: 'active_build_timeout',
    },
  );
  first.tell('go');
  expect((await first.result).status).toBe('built');
  expect((await second.result).status).toBe('joined');
  expect(await second.producing).toBe(false);
  expect(second.inside).toBe(false);

  const failing = python.holdBuild(store, identity('n'), { tensors });
  failing.tell('fail');
  expect((await failing.result).failure).toMatchObject({ code: 'producer_failed', retryable: false });

  const doomed = await PythonSide.start();
  const other = await doomed.open({ root });
  const dying = doomed.holdBuild(other.store, identity('n'), { tensors }, 'written');
  expect(await dying.producing).toBe(true);
  dying.tell('exit');
  await expect(dying.result).rejects.toThrow(PythonDied);
  await expect(doomed.ping()).rejects.toThrow('ended with code 9');
  await doomed.close();
  const states = (await python.inspectDomain(store)).inventory.map(({ state }) => state);
  expect(states.sort()).toEqual(['ready', 'temporary']);
});

test('resolves by mode', async () => {
  const { store } = await python.open({ root });
  const direct = await python.resolve('disabled');
  expect(direct).toMatchObject({ outcome: 'canonical_direct', attempts: [] });
  const absent = { store, identity: identity('m') };
  expect((await python.resolve('preferred', absent)).outcome).toBe('canonical_fallback');
  expect((await python.resolve('required', absent)).outcome).toBe('failed');
  const produced = await python.resolve('required', { ...absent, production: { tensors } });
  expect(produced.outcome).toBe('local_production');
  expect(produced.attempts.map(({ stage, result }) => [stage, result])).toEqual([
    ['lookup', 'miss'],
    ['production', 'success'],
  ]);
  expect((await python.resolve('required', absent)).outcome).toBe('local_hit');
  const refused = await python.resolve('preferred', {
    domain: { root, capacity: { maxStoreBytes: 5 } },
    identity: identity('m'),
  });
  expect(refused.outcome).toBe('failed');
  expect(refused.attempts[0]?.failure?.code).toBe('domain_policy_mismatch');
});

test('reports refusals and mistakes as errors', async () => {
  await python.open({ root });
  const refused = python.open({ root, domainId: 'other' });
  await expect(refused).rejects.toThrow(PythonError);
  await expect(refused).rejects.toMatchObject({
    failure: { code: 'domain_policy_mismatch', retryable: false },
  });
  await expect(python.lookup('nowhere', identity('m'))).rejects.toThrow('there is no store');
  await expect(
    python.open({ root, capacity: { maxStoreBytes: 5, buildAdmission: 'serialized' } }),
  ).rejects.toMatchObject({ type: 'TypeError' });
});

test('leaves no process behind', async () => {
  const killed = await PythonSide.start();
  await killed.kill();
  expect(existsSync(`/proc/${killed.pid}`)).toBe(false);
  const closed = await PythonSide.start();
  const file = path.join(root, 'held.lock');
  await closed.holdLock(file);
  const never = closed.holdLock(file);
  const rejected = expect(never).rejects.toThrow(PythonDied);
  await closed.close();
  await rejected;
  expect(existsSync(`/proc/${closed.pid}`)).toBe(false);
});
