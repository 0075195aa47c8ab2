/** Every check between an entry under `artifacts/` and a lease, and what a failed one leaves behind. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { canonicalJson, type JsonObject } from '../../../src/store/canonical-json.ts';
import { openDomain } from '../../../src/store/domain.ts';
import { parseJsonBytes } from '../../../src/store/json-parser.ts';
import type { ValidationLevel } from '../../../src/store/lease.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { inspectKey, lookup, type LookupResult } from '../../../src/store/lookup.ts';
import {
  bodyOf,
  closed,
  flipPayloadBit,
  giveTo,
  identityOf,
  inOpenedArtifact,
  isRoot,
  KiB,
  nobody,
  Scenario,
  startProcess,
  store,
  temporaryFolder,
  valueOf,
  withWritableFile,
  type StoreProcess,
} from '../../fixtures/store.ts';

const content = { bytes: 4 * KiB, seed: 5 };
const payload = 'weights.safetensors';
const full = 'full_checksum';
const metadata = 'manifest_and_metadata';

function readObject(path: string): JsonObject {
  return parseJsonBytes(readFileSync(path)) as JsonObject;
}

function writeObject(path: string, document: JsonObject): void {
  withWritableFile(path, () => Buffer.from(canonicalJson(document)));
}

/** Changes the marker alone. */
function remark(entry: string, change: JsonObject): void {
  writeObject(join(entry, 'READY.json'), { ...readObject(join(entry, 'READY.json')), ...change });
}

/** Changes the manifest, and the marker with it, so that both still belong together. */
function republish(entry: string, change: (manifest: JsonObject) => JsonObject): void {
  const manifest = change(readObject(join(entry, 'manifest.json')));
  writeObject(join(entry, 'manifest.json'), manifest);
  remark(entry, {
    manifest_sha256: createHash('sha256').update(canonicalJson(manifest)).digest('hex'),
    artifact_content_sha256: manifest['artifact_content_sha256'] ?? null,
  });
}

function changeTensor(entry: string, change: JsonObject): void {
  republish(entry, (manifest) => {
    const [first, ...rest] = manifest['tensors'] as JsonObject[];
    return { ...manifest, tensors: [{ ...first, ...change }, ...rest] };
  });
}

function replace(entry: string, name: string, put: (path: string) => void): void {
  inOpenedArtifact(entry, () => {
    rmSync(join(entry, name));
    put(join(entry, name));
  });
}

interface Spoilt {
  readonly what: string;
  readonly spoil: (entry: string) => void;
  readonly code: string;
  /** Default: validation. */
  readonly stage?: string;
  /** What the weaker level says, where it is not the same. */
  readonly metadataSees?: 'hit' | 'manifest_corrupt';
  readonly onlyRoot?: boolean;
}

const corrupt = 'manifest_corrupt';
const incompatible = 'manifest_incompatible';
const checksum = 'checksum_mismatch';

/** In the order of the specification's checks. */
const table: readonly Spoilt[] = [
  {
    what: 'a sticky entry',
    spoil: (entry) => chmodSync(entry, 0o1555),
    code: 'artifact_denied',
    stage: 'lookup',
  },
  {
    what: 'a sticky entry that is corrupt as well',
    spoil: (entry) => {
      inOpenedArtifact(entry, () => rmSync(join(entry, 'READY.json')));
      chmodSync(entry, 0o1777);
    },
    code: 'artifact_denied',
    stage: 'lookup',
  },
  { what: 'a directory that its owner may write', spoil: (entry) => chmodSync(entry, 0o755), code: corrupt },
  { what: 'a directory that others may write', spoil: (entry) => chmodSync(entry, 0o557), code: corrupt },
  {
    what: "another user's directory",
    spoil: (entry) => chownSync(entry, nobody, nobody),
    code: corrupt,
    onlyRoot: true,
  },
  {
    what: 'a file in the place of the directory',
    spoil: (entry) => {
      rmSync(entry, { recursive: true });
      writeFileSync(entry, '');
    },
    code: corrupt,
  },
  {
    what: 'a link in the place of the directory',
    spoil: (entry) => {
      renameSync(entry, `${entry}.moved`);
      symlinkSync(`${entry}.moved`, entry);
    },
    code: corrupt,
  },
  {
    what: 'an empty directory',
    spoil: (entry) =>
      inOpenedArtifact(entry, () => {
        for (const name of readdirSync(entry)) rmSync(join(entry, name));
      }),
    code: corrupt,
  },
  {
    what: 'no marker',
    spoil: (entry) => inOpenedArtifact(entry, () => rmSync(join(entry, 'READY.json'))),
    code: corrupt,
  },
  {
    what: 'a marker that may be written',
    spoil: (entry) => chmodSync(join(entry, 'READY.json'), 0o644),
    code: corrupt,
  },
  {
    what: "another user's marker",
    spoil: (entry) => chownSync(join(entry, 'READY.json'), nobody, nobody),
    code: corrupt,
    onlyRoot: true,
  },
  {
    what: 'a marker with a second name',
    spoil: (entry) => linkSync(join(entry, 'READY.json'), `${entry}.second`),
    code: corrupt,
  },
  {
    what: 'a link for a marker',
    spoil: (entry) => replace(entry, 'READY.json', (path) => symlinkSync('manifest.json', path)),
    code: corrupt,
  },
  {
    what: 'a pipe for a marker, which must not hang',
    spoil: (entry) => replace(entry, 'READY.json', (path) => execFileSync('mkfifo', ['-m', '444', path])),
    code: corrupt,
  },
  {
    what: 'a marker cut short',
    spoil: (entry) => withWritableFile(join(entry, 'READY.json'), (bytes) => bytes.subarray(0, 50)),
    code: corrupt,
  },
  {
    what: 'an empty marker',
    spoil: (entry) => withWritableFile(join(entry, 'READY.json'), () => Buffer.alloc(0)),
    code: corrupt,
  },
  {
    what: 'a marker that is a list',
    spoil: (entry) => withWritableFile(join(entry, 'READY.json'), () => Buffer.from('[]')),
    code: corrupt,
  },
  {
    what: 'a marker of 64 MiB and a byte',
    spoil: (entry) => {
      withWritableFile(join(entry, 'READY.json'), () => Buffer.alloc(0));
      chmodSync(join(entry, 'READY.json'), 0o600);
      truncateSync(join(entry, 'READY.json'), 64 * 1024 ** 2 + 1);
      chmodSync(join(entry, 'READY.json'), 0o444);
    },
    code: corrupt,
  },
  { what: 'a marker with a field too much', spoil: (entry) => remark(entry, { extra: 1 }), code: corrupt },
  {
    what: 'no manifest',
    spoil: (entry) => inOpenedArtifact(entry, () => rmSync(join(entry, 'manifest.json'))),
    code: corrupt,
  },
  {
    what: 'a manifest that may be written',
    spoil: (entry) => chmodSync(join(entry, 'manifest.json'), 0o464),
    code: corrupt,
  },
  {
    what: 'a manifest that is not JSON',
    spoil: (entry) => withWritableFile(join(entry, 'manifest.json'), () => Buffer.from('{')),
    code: corrupt,
  },
  {
    what: 'a marker of another version',
    spoil: (entry) => remark(entry, { schema_version: 2 }),
    code: incompatible,
  },
  {
    what: 'another integrity mode',
    spoil: (entry) => remark(entry, { integrity_mode: 'fs_verity' }),
    code: incompatible,
  },
  {
    what: 'a manifest of another version',
    spoil: (entry) => republish(entry, (m) => ({ ...m, schema_version: 2 })),
    code: incompatible,
  },
  {
    what: 'another version and a name too much: the version is told',
    spoil: (entry) => {
      remark(entry, { schema_version: 2 });
      inOpenedArtifact(entry, () => writeFileSync(join(entry, 'extra'), ''));
    },
    code: incompatible,
  },
  {
    what: 'a file too much',
    spoil: (entry) => inOpenedArtifact(entry, () => writeFileSync(join(entry, 'extra'), '')),
    code: corrupt,
  },
  {
    what: 'no payload',
    spoil: (entry) => inOpenedArtifact(entry, () => rmSync(join(entry, payload))),
    code: corrupt,
  },
  {
    what: 'a file too much and a wrong manifest digest: the names are told',
    spoil: (entry) => {
      inOpenedArtifact(entry, () => writeFileSync(join(entry, 'extra'), ''));
      remark(entry, { manifest_sha256: '0'.repeat(64) });
    },
    code: corrupt,
  },
  {
    what: 'a wrong manifest digest',
    spoil: (entry) => remark(entry, { manifest_sha256: '0'.repeat(64) }),
    code: checksum,
  },
  {
    what: 'a manifest that was changed',
    spoil: (entry) => {
      const path = join(entry, 'manifest.json');
      writeObject(path, { ...readObject(path), format_metadata: { other: true } });
    },
    code: checksum,
  },
  {
    what: 'a wrong content digest in the marker',
    spoil: (entry) => remark(entry, { artifact_content_sha256: '0'.repeat(64) }),
    code: checksum,
  },
  {
    what: "another artifact's identity",
    spoil: (entry) =>
      republish(entry, (m) => ({
        ...m,
        identity: parseJsonBytes(Buffer.from(identityOf('b').canonical)),
        artifact_key: identityOf('b').key,
      })),
    code: incompatible,
  },
  {
    what: 'another producer schema',
    spoil: (entry) => republish(entry, (m) => ({ ...m, producer_schema: 'm2' })),
    code: incompatible,
  },
  {
    what: 'another restorer schema',
    spoil: (entry) => republish(entry, (m) => ({ ...m, restorer_schema: 's2' })),
    code: incompatible,
  },
  {
    what: 'a link for a payload',
    spoil: (entry) => replace(entry, payload, (path) => symlinkSync('/etc/hostname', path)),
    code: corrupt,
  },
  {
    what: 'a pipe for a payload, which must not hang',
    spoil: (entry) => replace(entry, payload, (path) => execFileSync('mkfifo', ['-m', '444', path])),
    code: corrupt,
  },
  {
    what: 'a payload with a second name',
    spoil: (entry) => linkSync(join(entry, payload), `${entry}.second`),
    code: corrupt,
  },
  {
    what: 'a payload cut short',
    spoil: (entry) => withWritableFile(join(entry, payload), (bytes) => bytes.subarray(0, -1)),
    code: checksum,
  },
  {
    what: 'a payload with a byte more',
    spoil: (entry) =>
      withWritableFile(join(entry, payload), (bytes) => Buffer.concat([bytes, Buffer.alloc(1)])),
    code: checksum,
  },
  {
    what: 'a payload that may be written',
    spoil: (entry) => chmodSync(join(entry, payload), 0o644),
    code: corrupt,
  },
  {
    what: "another user's payload",
    spoil: (entry) => chownSync(join(entry, payload), nobody, nobody),
    code: corrupt,
    onlyRoot: true,
  },
  {
    what: 'a flipped payload bit',
    spoil: (entry) => flipPayloadBit(join(entry, payload)),
    code: checksum,
    metadataSees: 'hit',
  },
  {
    what: 'a flipped bit in the payload header',
    spoil: (entry) =>
      withWritableFile(join(entry, payload), (bytes) =>
        Buffer.from(bytes.toString('latin1').replace('"U8"', '"I8"'), 'latin1'),
      ),
    code: checksum,
    metadataSees: corrupt,
  },
  {
    what: 'a tensor of another dtype',
    spoil: (entry) => changeTensor(entry, { dtype: 'torch.int8' }),
    code: corrupt,
  },
  {
    what: 'a tensor of another shape',
    spoil: (entry) => changeTensor(entry, { shape: [4095] }),
    code: corrupt,
  },
  {
    what: 'a tensor of another rank',
    spoil: (entry) => changeTensor(entry, { shape: [4096, 1], stride: [1, 1] }),
    code: corrupt,
  },
  {
    what: 'a tensor of another stride',
    spoil: (entry) => changeTensor(entry, { stride: [2] }),
    code: corrupt,
  },
  {
    what: 'a tensor of another size',
    spoil: (entry) => changeTensor(entry, { nbytes: 4095 }),
    code: corrupt,
  },
  {
    what: 'a tensor under another key',
    spoil: (entry) => changeTensor(entry, { storage_key: 'elsewhere' }),
    code: corrupt,
  },
  {
    what: 'a tensor too few',
    spoil: (entry) =>
      republish(entry, (m) => ({ ...m, tensors: (m['tensors'] as JsonObject[]).slice(0, 1) })),
    code: corrupt,
  },
  {
    what: 'a wrong payload digest in the manifest',
    spoil: (entry) =>
      republish(entry, (m) => ({
        ...m,
        files: [{ ...(m['files'] as JsonObject[])[0], sha256: '0'.repeat(64) }],
      })),
    code: checksum,
    metadataSees: 'hit',
  },
];

/** Names, modes, owners, times and content of everything in a domain. */
function snapshot(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .map((found) => {
      const path = join(found.parentPath, found.name);
      const { mode, uid, nlink, mtimeMs, ctimeMs, size } = lstatSync(path);
      const text = found.isFile() && size < 100_000 ? readFileSync(path, 'latin1') : '';
      return `${path} ${mode.toString(8)} ${uid} ${nlink} ${mtimeMs} ${ctimeMs} ${size} ${text}`;
    })
    .sort();
}

function told(result: LookupResult): object {
  return { status: result.status, ...('failure' in result ? { failure: result.failure } : {}) };
}

describe.each(table.filter(({ onlyRoot }) => isRoot || onlyRoot !== true))(
  '$what',
  ({ spoil, code, stage = 'validation', metadataSees }) => {
    test.each<ValidationLevel>([metadata, full])('at the level %s', async (level) => {
      const scenario = await store().artifact('a', content).made();
      spoil(scenario.artifactPath('a'));
      const seen = level === metadata ? (metadataSees ?? code) : code;

      const before = snapshot(scenario.root);
      const inspected = await scenario.inspect('a', level);
      expect(snapshot(scenario.root)).toEqual(before);
      const found = await scenario.lookup('a', level);
      expect(told(found)).toEqual(told(inspected));

      if (seen === 'hit') {
        expect(found.status).toBe('hit');
        expect(existsSync(scenario.denyPath('a'))).toBe(false);
        return;
      }
      expect(found).toMatchObject({ status: 'invalid', failure: { stage, code: seen, retryable: false } });
      const { failure } = found as Extract<LookupResult, { failure: object }>;
      expect(failure.message).toContain(scenario.key('a'));
      const marker = readFileSync(scenario.denyPath('a'), 'utf8');
      expect(marker).toBe(
        canonicalJson({ schema_version: 1, stage, reason: seen, message: failure.message }),
      );
      expect(lstatSync(scenario.denyPath('a')).mode & 0o7777).toBe(0o444);
      expect(await scenario.heldLocks()).toEqual([]);

      // From now on nobody serves it, and the marker stays as it is.
      expect(await scenario.lookup('a')).toMatchObject({
        status: 'invalid',
        failure: { stage: 'lookup', code: 'artifact_denied', retryable: false },
      });
      expect(readFileSync(scenario.denyPath('a'), 'utf8')).toBe(marker);
      for (const name of readdirSync(scenario.path('artifacts'))) {
        // A second name or a moved original that this test made is not the store's to carry away.
        if (name !== scenario.key('a')) rmSync(scenario.path('artifacts', name), { recursive: true });
      }
      expect(await scenario.buildStatus('a', content)).toBe('built');
      expect((await scenario.lookup('a', full)).status).toBe('hit');
      expect(existsSync(scenario.denyPath('a'))).toBe(false);
    });
  },
);

describe('what is taken', () => {
  test('documents with blanks, another key order and a mark: digests are over the value', async () => {
    const scenario = await store().artifact('a', content).made();
    for (const name of ['READY.json', 'manifest.json']) {
      withWritableFile(scenario.artifactPath('a', name), (bytes) => {
        const reversed = Object.fromEntries(Object.entries(JSON.parse(bytes.toString()) as object).reverse());
        return Buffer.from(`\ufeff${JSON.stringify(reversed, null, 2)}\n`);
      });
    }
    expect((await scenario.lookup('a', full)).status).toBe('hit');
  });

  test('permissions of any kind, where they need not be trusted', async () => {
    const scenario = await store({ requireTrustedPermissions: false }).artifact('a', content).made();
    chmodSync(scenario.artifactPath('a'), 0o775);
    for (const name of readdirSync(scenario.artifactPath('a')))
      chmodSync(scenario.artifactPath('a', name), 0o666);
    expect((await scenario.lookup('a', full)).status).toBe('hit');
    const trusting = new Scenario(valueOf(await openDomain(scenario.root)));
    expect(await trusting.inspect('a')).toMatchObject({ status: 'invalid', failure: { code: corrupt } });
  });

  test('a deny marker for a key that is not there: a miss', async () => {
    const scenario = await store().made();
    writeFileSync(scenario.denyPath('a'), '');
    expect((await scenario.lookup('a')).status).toBe('miss');
    expect((await scenario.inspect('a')).status).toBe('miss');
  });
});

describe('a lease', () => {
  test('gives the bytes that were built, the regions that hold them, and keeps cleanup out', async () => {
    const scenario = await store().artifact('a', content).made();
    const found = await lookup(scenario.domain, identityOf('a'), { deadline: null, validation: full });
    if (found.status !== 'hit') throw new Error(found.status);
    const { lease } = found;
    expect(await lease.readTensor('body')).toEqual(bodyOf(content));
    expect(await lease.readTensor('empty')).toHaveLength(0);
    await expect(lease.readTensor('other')).rejects.toThrow('no tensor "other"');
    const size = lstatSync(scenario.artifactPath('a', payload)).size;
    expect(lease.regions).toEqual([
      { fileName: payload, offset: size - content.bytes, length: content.bytes },
    ]);
    expect(lease.provenance).toMatchObject({ domainUuid: scenario.domain.uuid, validationLevel: full });
    expect(lease.tensorBytes).toBe(content.bytes);
    expect(await scenario.heldLocks()).toEqual([`${scenario.key('a')}.artifact.lock`]);
    const reading = lease.readTensor('body');
    lease.close();
    lease.close();
    // Whatever the descriptor has become by now: an error, and never other bytes.
    await expect(reading).rejects.toThrow();
    expect(lease.closed).toBe(true);
    expect(await scenario.heldLocks()).toEqual([]);
    await expect(lease.readTensor('body')).rejects.toThrow('closed');
  });

  test('two readers share', async () => {
    const scenario = await store().artifact('a', content).made();
    const options = { deadline: 0 } as const;
    const both = [
      await lookup(scenario.domain, identityOf('a'), options),
      await lookup(scenario.domain, identityOf('a'), options),
    ];
    expect(both.map(({ status }) => status)).toEqual(['hit', 'hit']);
    both.forEach(closed);
  });
});

describe('contention', () => {
  test('an exclusive artifact lock: a timeout that can be retried, also for inspection', async () => {
    const scenario = await store().artifact('a', content).made();
    const path = scenario.path('locks', `${scenario.key('a')}.artifact.lock`);
    const lock = await FileLock.exclusive(path, withoutWaiting);
    const timeout = {
      status: 'timeout',
      failure: { stage: 'lookup', code: 'active_build_timeout', retryable: true },
    };
    expect(await lookup(scenario.domain, identityOf('a'), { deadline: 0 })).toMatchObject(timeout);
    expect(await scenario.inspect('a')).toMatchObject(timeout);
    const waiting = scenario.lookup('a');
    lock.release();
    expect((await waiting).status).toBe('hit');
  });

  test('a signal ends the wait with its reason', async () => {
    const scenario = await store().artifact('a', content).made();
    const path = scenario.path('locks', `${scenario.key('a')}.artifact.lock`);
    const lock = await FileLock.exclusive(path, withoutWaiting);
    const cancel = new AbortController();
    const waiting = lookup(scenario.domain, identityOf('a'), { deadline: null, signal: cancel.signal });
    cancel.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    lock.release();
    expect(await scenario.heldLocks()).toEqual([]);
  });
});

/** Lets promises run that wait for nothing but each other; what waits for a thread stays where it is. */
async function untilItWaitsForTheDisk(): Promise<void> {
  for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
}

describe('what is refused while it is being looked up', () => {
  test.each<[string, (scenario: Scenario) => void]>([
    ['a deny marker', (scenario) => writeFileSync(scenario.denyPath('a'), '')],
    ['the sticky bit', (scenario) => chmodSync(scenario.artifactPath('a'), 0o1555)],
  ])('%s that comes after the first look counts, and nothing is written', async (_, refuse) => {
    const scenario = await store().artifact('a', content).made();
    const looking = scenario.lookup('a');
    await untilItWaitsForTheDisk();
    refuse(scenario);
    const before = snapshot(scenario.root);
    const found = await looking;
    expect(found).toMatchObject({ status: 'invalid', failure: { stage: 'lookup', code: 'artifact_denied' } });
    expect((found as { failure: { message: string } }).failure.message).toContain('while it was looked up');
    expect(snapshot(scenario.root)).toEqual(before);
    expect(await scenario.heldLocks()).toEqual([]);
  });
});

describe('an invalid artifact that cannot be denied', () => {
  let scenario: Scenario;
  let worker: StoreProcess;
  const entry = (): string => scenario.artifactPath('a');
  const asUser = isRoot ? { uid: nobody } : {};

  async function spoiltDomain(): Promise<void> {
    const folder = temporaryFolder('disk', isRoot ? nobody : undefined);
    scenario = await store({ root: join(folder, 'domain') })
      .artifact('a', content)
      .corrupted()
      .made();
    if (isRoot) giveTo(nobody, scenario.root);
    chmodSync(scenario.path('deny'), 0o500);
    worker = await startProcess(asUser);
    await worker.do('open', { root: scenario.root });
  }

  test('is marked, quarantined at once, and told as a failure that can be retried', async () => {
    await spoiltDomain();
    const found = await worker.lookup({ label: 'a', validation: full, deadlineMs: 1000 });
    expect(found).toMatchObject({
      status: 'failed',
      failure: {
        stage: 'domain',
        code: 'domain_unavailable',
        retryable: true,
        details: { containment: { invalidation_marker: 'durable', quarantine: 'completed' } },
      },
    });
    expect(scenario.names('artifacts')).toEqual([]);
    const [name = ''] = scenario.names('quarantine');
    expect(name).toMatch(/^[0-9a-f]{64}\.validation_failure\.[0-9a-f]{32}$/);
    expect(lstatSync(scenario.path('quarantine', name)).mode & 0o7777).toBe(0o555);
    chmodSync(scenario.path('deny'), 0o700);
    expect(await worker.build({ label: 'a', ...content }).result).toMatchObject({ status: 'built' });
  });

  test.each([20, undefined])(
    'in use, with a deadline of %s ms, is marked and left to later',
    async (deadlineMs) => {
      await spoiltDomain();
      const reader = await startProcess(asUser);
      await reader.do('open', { root: scenario.root });
      expect(await reader.lookup({ label: 'a', hold: true })).toMatchObject({ status: 'hit' });
      const command = {
        label: 'a',
        validation: full,
        ...(deadlineMs === undefined ? {} : { deadlineMs }),
      } as const;
      expect(await worker.lookup(command)).toMatchObject({
        status: 'failed',
        failure: {
          retryable: true,
          details: {
            containment: { invalidation_marker: 'durable', quarantine: 'deferred_for_active_lease' },
          },
        },
      });
      expect(lstatSync(entry()).mode & 0o7777).toBe(0o1555);
      // The mark alone keeps it from being served, at the weakest level and by inspection too.
      expect(await worker.do('inspect', { label: 'a' })).toMatchObject({
        status: 'invalid',
        failure: { code: 'artifact_denied' },
      });
      await reader.do('release', { label: 'a' });
      expect(await worker.lookup({ label: 'a', deadlineMs: 1000 })).toMatchObject({
        status: 'failed',
        failure: { details: { containment: { quarantine: 'completed' } } },
      });
      expect(scenario.names('artifacts')).toEqual([]);
    },
  );
});

describe('inspection by key alone', () => {
  test('says what a lookup of the right identity would say', async () => {
    const scenario = await store().artifact('a', content).artifact('b', content).made();
    expect(closed(await inspectKey(scenario.domain, scenario.key('a'), { validation: full })).status).toBe(
      'hit',
    );
    expect((await inspectKey(scenario.domain, scenario.key('c'))).status).toBe('miss');
    withWritableFile(scenario.artifactPath('b', 'manifest.json'), () => Buffer.from('{}'));
    expect(await inspectKey(scenario.domain, scenario.key('b'))).toMatchObject({
      status: 'invalid',
      failure: { code: corrupt },
    });
    expect(scenario.names('deny')).toEqual([]);
  });

  test('an artifact under the name of another one is incompatible', async () => {
    const scenario = await store().artifact('a', content).made();
    chmodSync(scenario.artifactPath('a'), 0o755);
    renameSync(scenario.artifactPath('a'), scenario.artifactPath('b'));
    chmodSync(scenario.artifactPath('b'), 0o555);
    expect(await inspectKey(scenario.domain, scenario.key('b'))).toMatchObject({
      status: 'invalid',
      failure: { code: incompatible },
    });
    expect(await scenario.lookup('b')).toMatchObject({ status: 'invalid', failure: { code: incompatible } });
  });
});

test('a lookup makes its lock file, and only that, in a store that has none', async () => {
  const scenario = await store().made();
  const before = scenario.names('locks');
  expect((await scenario.lookup('a')).status).toBe('miss');
  expect(scenario.names('locks').filter((name) => !before.includes(name))).toEqual([
    `${scenario.key('a')}.artifact.lock`,
  ]);
});
