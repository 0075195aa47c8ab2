/**
 * The store as an ordinary user (root hides permission faults), on a disk and in memory, and what the field
 * reports say of its locks: cases S1 to S3 and S6 to S9.
 */
import { chownSync, existsSync, lstatSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Failure } from '../../../src/contract/failure.ts';
import {
  flipPayloadBit,
  giveTo,
  identityOf,
  isRoot,
  KiB,
  MiB,
  nobody,
  startProcess,
  store,
  temporaryFolder,
  type Ground,
  type StoreProcess,
} from '../../fixtures/store.ts';
import { straceProblem, Tracer } from '../../fixtures/store-strace.ts';

const uid = isRoot ? nobody : (process.geteuid?.() ?? 0);
const asUser = isRoot ? { uid: nobody } : {};
if (!isRoot) console.log('not root: everything is shown as this user, and S6 and other users not at all');

const content = { bytes: 64 * KiB, seed: 3 };
const a = identityOf('a');

interface Ours {
  readonly root: string;
  readonly worker: StoreProcess;
}

/** A domain that belongs to the user, and a process of that user that has it open. */
async function domainOfUser(ground: Ground = 'disk', maxStoreBytes = 8 * MiB): Promise<Ours> {
  const root = join(temporaryFolder(ground, isRoot ? nobody : undefined), 'domain');
  const worker = await startProcess(asUser);
  const created = await worker.do('create', { root, admission: 'serialized', capacity: { maxStoreBytes } });
  expect(created).toMatchObject({ existing: false });
  return { root, worker };
}

async function anotherWorker({ root }: Pick<Ours, 'root'>): Promise<StoreProcess> {
  const worker = await startProcess(asUser);
  expect(await worker.do('open', { root })).toHaveProperty('root', root);
  return worker;
}

function lockPath(root: string, name: string): string {
  return join(root, 'locks', name);
}

function inodeOf(path: string): string {
  return String(lstatSync(path, { bigint: true }).ino);
}

function modeOf(...path: string[]): string {
  return (lstatSync(join(...path)).mode & 0o7777).toString(8);
}

async function heldBy(worker: StoreProcess): Promise<string[]> {
  return (await worker.do('locks', {})).filter(({ state }) => state !== 'free').map(({ name }) => name);
}

describe.each(['disk', 'tmpfs'] as const)('the lifecycle on %s', (ground) => {
  test('create, build, deny, quarantine, rebuild, remove, all as an ordinary user', async () => {
    const { root, worker } = await domainOfUser(ground);
    const domain = JSON.parse(readFileSync(join(root, 'domain.json'), 'utf8')) as Record<string, string>;
    console.log(`${ground}: ${domain['filesystem_type']}, as user ${uid}`);
    // Where the temporary folder is in memory, a disk is not to be had.
    if (ground === 'tmpfs') expect(domain['storage_class']).toBe('tmpfs');
    for (const name of ['.', 'locks', 'artifacts', 'tmp', 'quarantine', 'deny']) {
      expect(modeOf(root, name)).toBe('700');
    }
    expect(modeOf(root, 'domain.json')).toBe('444');
    expect(modeOf(root, 'domain-policy.json')).toBe('444');

    expect(await worker.build({ label: 'a', ...content }).result).toMatchObject({ status: 'built' });
    const entry = join(root, 'artifacts', a.key);
    expect(modeOf(entry)).toBe('555');
    expect(lstatSync(entry).uid).toBe(uid);
    for (const name of ['READY.json', 'manifest.json', 'weights.safetensors']) {
      expect(modeOf(entry, name)).toBe('444');
      expect(lstatSync(join(entry, name)).uid).toBe(uid);
    }
    expect(modeOf(lockPath(root, `${a.key}.build.lock`))).toBe('600');

    // S5: the weaker level cannot see it, and must not be believed any more once the stronger one has.
    flipPayloadBit(join(entry, 'weights.safetensors'));
    expect(await worker.lookup({ label: 'a' })).toMatchObject({ status: 'hit' });
    expect(await worker.lookup({ label: 'a', validation: 'full_checksum' })).toMatchObject({
      status: 'invalid',
      failure: { stage: 'validation', code: 'checksum_mismatch' },
    });
    expect(modeOf(root, 'deny', `${a.key}.json`)).toBe('444');
    expect(await worker.lookup({ label: 'a' })).toMatchObject({
      status: 'invalid',
      failure: { stage: 'lookup', code: 'artifact_denied' },
    });

    // S1: the rebuild has to rename a 0555 directory.
    expect(await worker.build({ label: 'a', ...content }).result).toMatchObject({ status: 'built' });
    expect(await worker.lookup({ label: 'a', validation: 'full_checksum' })).toMatchObject({ status: 'hit' });
    const { entries } = await worker.do('inventory', {});
    expect(entries).toMatchObject([
      { state: 'quarantined', reason: 'validation_failure', invalidated: false },
      { state: 'ready', name: a.key },
    ]);
    const quarantined = entries[0]?.name ?? '';
    expect(modeOf(root, 'quarantine', quarantined)).toBe('555');

    expect(await worker.do('cleanup', { label: 'a' })).toMatchObject({ removed: true });
    expect(await worker.do('cleanup', { label: 'a' })).toEqual({ removed: false, removedBytes: 0 });
    expect(await worker.do('cleanupQuarantined', { name: quarantined })).toMatchObject({ removed: true });
    expect(await worker.do('cleanupQuarantined', { name: quarantined })).toEqual({
      removed: false,
      removedBytes: 0,
    });
    expect((await worker.do('inventory', {})).entries).toEqual([]);
    expect(await heldBy(worker)).toEqual([]);
  });
});

/** The call that a publication makes right after its rename, by its number among those of its name. */
async function callAfterRename(tracer: Tracer): Promise<number> {
  const scenario = await store().artifact('a', content).invalidated().made();
  if (isRoot) giveTo(nobody, scenario.root);
  if (isRoot) chownSync(join(scenario.root, '..'), nobody, nobody);
  const worker = await anotherWorker(scenario);
  const trace = await tracer.attach(worker.pid, { calls: ['fchmod'], thread: worker.pid });
  expect(await worker.build({ label: 'a', ...content }).result).toMatchObject({ status: 'built' });
  const call = (await trace.end()).findLast(({ text }) => / 0555\)/.test(text));
  if (call === undefined) throw new Error('the artifact was not made immutable');
  return call.ordinal;
}

test.skipIf(straceProblem !== null)(
  'S2: builders killed while they publish fill the store; removing those entries frees it',
  async () => {
    const tracer = new Tracer();
    const ordinal = await callAfterRename(tracer);
    const { root, worker } = await domainOfUser();
    const big = { bytes: 1.5 * MiB, seed: 3 };
    // The first build is not killed but spoilt, so that all killed ones do the same steps.
    expect(await worker.build({ label: 'a', ...big }).result).toMatchObject({ status: 'built' });
    flipPayloadBit(join(root, 'artifacts', a.key, 'weights.safetensors'));
    await worker.lookup({ label: 'a', validation: 'full_checksum' });

    let killed = 0;
    let failure: Failure | null = null;
    while (failure === null) {
      const victim = await anotherWorker({ root });
      const trace = await tracer.attach(victim.pid, {
        calls: ['fchmod'],
        inject: `fchmod:signal=SIGKILL:when=${ordinal}`,
        thread: victim.pid,
      });
      const ended = victim.ended.then(() => null);
      const result = await Promise.race([
        victim.build({ label: 'a', ...big }).result.catch(() => null),
        ended,
      ]);
      if (result === null) {
        await trace.end();
        killed += 1;
        expect(modeOf(root, 'artifacts', a.key)).toBe('1755');
      } else {
        expect(result.status).toBe('failed');
        failure = result.failure;
        await victim.end();
        await trace.end();
      }
    }
    expect(killed).toBeGreaterThanOrEqual(3);
    expect(failure).toMatchObject({ code: 'store_limit_exceeded', retryable: true });
    // It is not this key or this builder: nobody can build any more, however often it is tried.
    for (const label of ['a', 'b', 'a']) {
      expect(await worker.build({ label, ...big }).result).toMatchObject({
        status: 'failed',
        failure: { code: 'store_limit_exceeded' },
      });
    }
    const { entries, storeBytes } = await worker.do('inventory', {});
    const quarantined = entries.filter(({ state }) => state === 'quarantined');
    expect(quarantined.map(({ reason }) => reason)).toEqual(quarantined.map(() => 'validation_failure'));
    expect(storeBytes).toBeLessThanOrEqual(8 * MiB);

    for (const { name } of quarantined) {
      const removed = await worker.do('cleanupQuarantined', { name });
      expect(removed).toMatchObject({ removed: true });
    }
    for (const label of ['a', 'b']) {
      expect(await worker.build({ label, ...big }).result).toMatchObject({ status: 'built' });
    }
    expect((await worker.do('inventory', {})).entries).toMatchObject([
      { state: 'ready' },
      { state: 'ready' },
    ]);
  },
);

test('S3: an init lock that stays held is waited for so long, its holder named, its file kept', async () => {
  const { root, worker } = await domainOfUser();
  const lock = lockPath(root, 'domain-init.lock');
  const inode = inodeOf(lock);
  expect(await worker.do('lock', { name: 'domain-init.lock' })).toMatchObject({ inode });

  const other = await startProcess(asUser);
  const capacity = { maxStoreBytes: 8 * MiB };
  const opening = { root, admission: 'serialized', capacity, coordinationTimeoutMs: 120 } as const;
  const refused = (await other.do('create', opening)) as Failure;
  expect(refused).toMatchObject({ stage: 'domain', code: 'domain_unavailable', retryable: true });
  expect(refused.message).toContain(`process ${worker.pid} (`);
  expect(refused.message).toContain('store-process.ts');
  expect(refused.message).toContain('0.12 s');
  expect(inodeOf(lock)).toBe(inode);
  expect(await heldBy(worker)).toEqual(['domain-init.lock']);

  await worker.do('unlock', { name: 'domain-init.lock' });
  expect(await other.do('create', opening)).toMatchObject({ existing: true });
  expect(inodeOf(lock)).toBe(inode);
});

test('S3: opening a domain that is there waits for nobody', async () => {
  const { root, worker } = await domainOfUser();
  await worker.do('lock', { name: 'domain-init.lock' });
  await anotherWorker({ root });
});

describe.skipIf(!isRoot)("S6: another user's lock file", () => {
  test.each([0o644, 0o600])('mode %o is "no permission", and neither free nor held', async (mode) => {
    const { root, worker } = await domainOfUser();
    const name = `${a.key}.artifact.lock`;
    writeFileSync(lockPath(root, name), '', { mode });

    const locked = await worker.do('lock', { name });
    expect(locked).toMatchObject({ inode: null, failure: { code: 'EACCES' } });
    expect(locked.failure?.name).not.toBe('LockTimeout');
    const states = (await worker.do('locks', {})).filter((state) => state.name === name);
    expect(states).toMatchObject([{ state: 'unknown', holders: [] }]);

    for (const result of [
      await worker.lookup({ label: 'a', deadlineMs: 0 }),
      await worker.build({ label: 'a', ...content, deadlineMs: 0 }).result,
    ]) {
      expect(result).toMatchObject({
        status: 'failed',
        failure: { stage: 'domain', code: 'domain_unavailable', retryable: true },
      });
      expect(result.failure?.message).toContain('no permission');
    }
    expect(await worker.do('cleanup', { label: 'a' })).toMatchObject({
      code: 'quarantine_failed',
      retryable: true,
      message: expect.stringContaining('no permission') as string,
    });
    expect(lstatSync(lockPath(root, name)).uid).toBe(0);
  });

  test('a directory of another user is refused, whoever could read it', async () => {
    const { root } = await domainOfUser();
    chownSync(join(root, 'deny'), 0, 0);
    const other = await startProcess(asUser);
    expect(await other.do('open', { root })).toMatchObject({
      code: 'domain_unavailable',
      retryable: false,
      message: expect.stringContaining('belongs to user 0') as string,
    });
  });
});

test('S7: no descriptor of the store reaches a child, and a child keeps no lock alive', async () => {
  const { root, worker } = await domainOfUser();
  const other = await anotherWorker({ root });
  expect(await worker.build({ label: 'a', ...content, hold: true }).result).toMatchObject({
    status: 'built',
  });
  const building = worker.build({ label: 'b', ...content, pause: 'midway' });
  await building.inside;

  const child = await worker.do('spawn', {});
  onTestFinished(() => {
    if (existsSync(`/proc/${child.pid}`)) process.kill(child.pid, 'SIGKILL');
  });
  expect(child.descriptors.filter((path) => path.startsWith(root))).toEqual([]);
  const held = [`${a.key}.artifact.lock`, `${identityOf('b').key}.build.lock`, 'domain-build.lock'].sort();
  expect(await heldBy(other)).toEqual(held);

  await worker.kill();
  expect(() => process.kill(child.pid, 0)).not.toThrow();
  expect(await heldBy(other)).toEqual([]);
  expect(await other.do('cleanup', { label: 'a' })).toMatchObject({ removed: true });
  expect(await other.build({ label: 'b', ...content, deadlineMs: 0 }).result).toMatchObject({
    status: 'built',
  });
});

test('S8: a lock file unlinked by hand never makes two holders of what the path names', async () => {
  const { root, worker: first } = await domainOfUser();
  const [second, third] = await Promise.all([anotherWorker({ root }), anotherWorker({ root })]);
  const name = `${a.key}.build.lock`;
  const path = lockPath(root, name);
  const old = await first.do('lock', { name });
  expect(old.inode).toBe(inodeOf(path));

  let secondHas: string | null = null;
  const waiting = second.do('lock', { name, deadlineMs: 600_000 }).then((report) => {
    secondHas = report.inode;
    return report;
  });
  // It has opened the old file before that goes: the answer to the next command says that it got so far.
  await second.do('locks', {});
  unlinkSync(path);
  const taken = await third.do('lock', { name });
  expect(taken.inode).toBe(inodeOf(path));
  expect(taken.inode).not.toBe(old.inode);

  // The second now gets the lock it waits for, on a file that nobody can find any more: that must not count.
  await first.do('unlock', { name });
  expect(await first.do('lock', { name })).toMatchObject({
    inode: null,
    failure: { name: 'LockTimeout' },
  });
  await second.do('locks', {});
  expect(secondHas).toBeNull();
  expect((await third.do('locks', {})).filter(({ state }) => state === 'held')).toMatchObject([
    { name, holders: [{ pid: third.pid }] },
  ]);

  await third.do('unlock', { name });
  expect((await waiting).inode).toBe(inodeOf(path));
});

test('S9: leftovers are judged by the kernel, not by whether a lock file is there', async () => {
  const { root, worker } = await domainOfUser();
  const doomed = await anotherWorker({ root });
  const build = doomed.build({ label: 'a', ...content, pause: 'midway' });
  await build.inside;
  const running = await worker.do('cleanup', { label: 'a' });
  expect(running).toMatchObject({
    code: 'active_build_timeout',
    retryable: true,
    message: expect.stringContaining(`process ${doomed.pid} (`) as string,
  });
  await doomed.kill();

  // The lock files are there still, one of them with a pid in it as other programs write it.
  writeFileSync(lockPath(root, `${a.key}.build.lock`), `${process.pid}\n`);
  const states = await worker.do('locks', {});
  expect(states.map(({ name }) => name)).toContain(`${a.key}.build.lock`);
  expect(states.map(({ state }) => state)).toEqual(states.map(() => 'free'));
  expect((await worker.do('inventory', {})).entries).toMatchObject([{ state: 'temporary' }]);
  expect(await worker.build({ label: 'a', ...content, deadlineMs: 0 }).result).toMatchObject({
    status: 'built',
  });
  expect((await worker.do('inventory', {})).entries).toMatchObject([{ state: 'ready' }]);
});

test('a lease makes cleanup refuse, names its holder, and does not outlive it', async () => {
  const { root, worker } = await domainOfUser();
  const reader = await anotherWorker({ root });
  await worker.build({ label: 'a', ...content }).result;
  expect(await reader.lookup({ label: 'a', hold: true })).toMatchObject({ status: 'hit' });
  expect(await worker.do('cleanup', { label: 'a' })).toMatchObject({
    stage: 'lifecycle',
    code: 'active_lease',
    retryable: true,
    message: expect.stringContaining(`process ${reader.pid} (`) as string,
  });
  expect(await worker.lookup({ label: 'a', deadlineMs: 0 })).toMatchObject({ status: 'hit' });
  await reader.kill();
  expect(await worker.do('cleanup', { label: 'a' })).toMatchObject({ removed: true });
});
