/**
 * One store, two programs: the published Python package and ours, both running, on the same domain.
 */
import { createHash, randomInt } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync as readlink,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { getOrBuild, type BuildPhase, type StoreResult } from '../../src/store/build.ts';
import { canonicalJson } from '../../src/store/canonical-json.ts';
import { cleanup } from '../../src/store/cleanup.ts';
import { deadlineIn } from '../../src/store/clock.ts';
import { createDomain, openDomain, type Domain, type DomainRequest } from '../../src/store/domain.ts';
import { inventory } from '../../src/store/inventory.ts';
import { parseJson, parseJsonBytes } from '../../src/store/json-parser.ts';
import { validationLevels } from '../../src/store/lease.ts';
import { FileLock } from '../../src/store/lock.ts';
import { lockStates } from '../../src/store/lock-holders.ts';
import { inspectArtifact, lookup } from '../../src/store/lookup.ts';
import { manifestBytes } from '../../src/store/manifest.ts';
import { resolve } from '../../src/store/resolve.ts';
import { identityOf, identityText, producerOf, sampleFiles, sampleTensors, tensorBytes } from './our-side.ts';
import { PythonError, PythonSide } from './python-side.ts';

let python: PythonSide;
let base: string;
let root: string;

beforeAll(async () => {
  python = await PythonSide.start();
});
afterAll(async () => {
  await python.close();
});
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'weightroom-interop-'));
  root = join(base, 'store');
});
afterEach(() => {
  widen(base);
  rmSync(base, { recursive: true, force: true });
});

/** Makes everything below removable, as the mutations leave it in any state. */
function widen(directory: string): void {
  chmodSync(directory, 0o700);
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) widen(join(directory, entry.name));
  }
}

async function ours(request: Partial<DomainRequest> = {}): Promise<Domain> {
  const created = await createDomain({ root, ...request });
  if (!created.ok) throw new Error(created.failure.message);
  return created.value.domain;
}

const text = identityText('both');
const identity = identityOf(text);
const production = { tensors: sampleTensors, files: sampleFiles };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const policyBytes = (): string => readFileSync(join(root, 'domain-policy.json'), 'latin1');

interface OurBuild {
  readonly timeoutMs?: number;
  readonly inside?: () => Promise<void>;
  readonly onPhase?: (phase: BuildPhase) => void;
}

async function buildOurs(domain: Domain, options: OurBuild = {}): Promise<StoreResult> {
  const result = await getOrBuild(
    domain,
    identity,
    producerOf(identity, sampleTensors, sampleFiles, options.inside),
    { deadline: deadlineIn(options.timeoutMs ?? 20_000), onPhase: options.onPhase },
  );
  if ('lease' in result) result.lease.close();
  return result;
}

describe('domains', () => {
  test('they make it, we open it and make it again with the same policy', async () => {
    const theirs = await python.open({ root, capacity: { maxStoreBytes: 1_000_000, minFreeBytes: 5 } });
    const opened = await openDomain(root);
    expect(opened).toMatchObject({
      ok: true,
      value: { uuid: theirs.domainUuid, filesystemType: theirs.filesystemType, admission: 'concurrent' },
    });
    const again = await createDomain({ root, capacity: { maxStoreBytes: 1_000_000, minFreeBytes: 5 } });
    expect(again).toMatchObject({ ok: true, value: { existing: true, domain: { uuid: theirs.domainUuid } } });
  });

  test('we make it, they open it; the documents are byte for byte what they would have written', async () => {
    const domain = await ours({ capacity: { maxArtifactBytes: 10_000, maxStoreBytes: 2 ** 40 } });
    const mine = policyBytes();
    const theirs = await python.open({
      root,
      capacity: { maxArtifactBytes: 10_000, maxStoreBytes: 2 ** 40 },
    });
    expect(theirs.domainUuid).toBe(domain.uuid);
    const other = join(base, 'theirs');
    await python.open({ root: other, capacity: { maxArtifactBytes: 10_000, maxStoreBytes: 2 ** 40 } });
    expect(readFileSync(join(other, 'domain-policy.json'), 'latin1')).toBe(mine);
    const withoutUuid = (folder: string): string =>
      readFileSync(join(folder, 'domain.json'), 'latin1').replace(/[0-9a-f]{32}/, '');
    expect(withoutUuid(other)).toBe(withoutUuid(root));
  });

  test('each refuses the other policy and leaves the document as it is', async () => {
    await python.open({ root, capacity: { maxStoreBytes: 1000 } });
    const before = policyBytes();
    expect(await createDomain({ root, capacity: { maxStoreBytes: 1001 } })).toMatchObject({
      failure: { code: 'domain_policy_mismatch', stage: 'configuration', retryable: false },
    });
    expect(
      await createDomain({ root, admission: 'serialized', capacity: { maxStoreBytes: 1000 } }),
    ).toMatchObject({
      failure: { code: 'domain_policy_mismatch' },
    });
    expect(policyBytes()).toBe(before);
  });

  test('a wheel that does not know serialized admission refuses such a domain', async () => {
    await ours({ admission: 'serialized', capacity: { maxStoreBytes: 1_000_000 } });
    const before = policyBytes();
    await expect(python.open({ root, capacity: { maxStoreBytes: 1_000_000 } })).rejects.toMatchObject({
      failure: { code: 'domain_policy_mismatch' },
    });
    expect(policyBytes()).toBe(before);
  });
});

describe('keys', () => {
  test.each([
    '{"scale":1.0,"eps":1e-05,"big":123456789012345678901234567890,"name":"\u{1f600}\u{10ffff}"}',
    '{"\u{1f600}":1,"\uffee":2,"b":[1e16,1e22,-0.0,-0,0.1,1e-4,9007199254740993,5e-324,1.7976931348623157e308]}',
    String.raw`{"lone":"\ud800","__proto__":{"constructor":null},"1":1,"10":2,"9":3,"slash":"a\/b\u007f\u0001\n"}`,
  ])('the same identity has the same key: %s', async (metadata) => {
    const withMetadata = identityText('keys', metadata);
    const mine = identityOf(withMetadata);
    const theirs = await python.identity(withMetadata);
    expect({ key: mine.key, text: mine.canonical }).toEqual(theirs);
  });

  test('random documents are canonicalized alike', async () => {
    const seed = Number(process.env['WEIGHTROOM_SEED'] ?? randomInt(2 ** 31));
    console.log(`random documents: WEIGHTROOM_SEED=${seed}`);
    const random = generator(seed);
    for (let round = 0; round < 300; round += 1) {
      const document = randomDocument(random, 4);
      const theirs = await python.canonical(document);
      expect(canonicalJson(parseJson(document)), document).toBe(theirs.text);
    }
  });

  test('bytes in other encodings are read alike', async () => {
    const document = '{"k":"\u00e9\u{1f600}"}';
    const utf16be = Buffer.from(document, 'utf16le').swap16();
    const utf32 = Buffer.concat(
      [...document].map((character) => codePointBytes(character.codePointAt(0) as number)),
    );
    for (const bytes of [
      Buffer.from(`\ufeff${document}`),
      Buffer.from(document, 'utf16le'),
      utf16be,
      Buffer.concat([Buffer.from([0xfe, 0xff]), utf16be]),
      utf32,
      Buffer.from('{"k":"x"}').map((byte) => (byte === 0x78 ? 0x7f : byte)),
      Buffer.concat([Buffer.from('"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"')]),
    ]) {
      expect(canonicalJson(parseJsonBytes(bytes))).toBe((await python.canonical(bytes)).text);
    }
  });

  test.each([
    '1e400',
    'NaN',
    '[Infinity]',
    `[${'9'.repeat(4301)}]`,
    '{"a":1,}',
    "{'a':1}",
    '"\u0001"',
    '01',
    '1.',
    '\ufeff1',
  ])('both refuse %s', async (document) => {
    await expect(python.canonical(document)).rejects.toBeInstanceOf(PythonError);
    expect(() => canonicalJson(parseJson(document))).toThrow();
  });
});

function codePointBytes(point: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(point);
  return bytes;
}

describe('artifacts', () => {
  test('theirs is a hit for us at both levels, with the same bytes', async () => {
    const { store } = await python.open({ root });
    const built = await python.build(store, text, production);
    expect(built.status).toBe('built');
    const opened = await openDomain(root);
    if (!opened.ok) throw new Error(opened.failure.message);
    for (const validation of validationLevels) {
      const found = await lookup(opened.value, identity, { validation, deadline: null });
      if (found.status !== 'hit') throw new Error(JSON.stringify(found));
      expect(manifestBytes(found.lease.manifest).toString('latin1')).toBe(built.content?.manifest);
      for (const tensor of sampleTensors) {
        expect(await found.lease.readTensor(tensor.name)).toEqual(Buffer.from(tensorBytes(tensor)));
      }
      expect(found.lease.regions).toEqual(
        built.content?.mappedRegions.map(({ fileName, offset, length }) => ({ fileName, offset, length })),
      );
      expect(found.lease.provenance.backingFingerprint).toBe(built.content?.provenance.backingFingerprint);
      found.lease.close();
    }
  });

  test('ours is a hit for them at both levels, with the same bytes', async () => {
    const domain = await ours();
    expect((await buildOurs(domain)).status).toBe('built');
    const { store } = await python.open({ root });
    for (const validation of validationLevels) {
      const found = await python.lookup(store, text, { validation });
      expect(found.failure).toBeNull();
      expect(found.status).toBe('hit');
      expect(found.content?.tensors).toEqual(
        sampleTensors
          .map((tensor) => ({ name: tensor.name, sha256: sha256(tensorBytes(tensor)) }))
          .sort((a, b) => (a.name < b.name ? -1 : 1)),
      );
    }
  });

  test('payload files are byte for byte alike, whoever writes them', async () => {
    await buildOurs(await ours());
    const other = join(base, 'theirs');
    const { store } = await python.open({ root: other });
    await python.build(store, text, production);
    for (const { name } of sampleFiles) {
      expect(sha256(readFileSync(join(root, 'artifacts', identity.key, name)))).toBe(
        sha256(readFileSync(join(other, 'artifacts', identity.key, name))),
      );
    }
  });
});

describe('at the same time', () => {
  test('a lease held there makes our cleanup refuse, until its holder is killed', async () => {
    const domain = await ours();
    await buildOurs(domain);
    const holder = await PythonSide.start();
    const { store } = await holder.open({ root });
    await holder.lookup(store, text, { keepLease: true });
    const held = (await lockStates(root)).find((lock) => lock.purpose === 'artifact');
    expect(held).toMatchObject({ state: 'held', holders: [{ pid: holder.pid, mode: 'shared' }] });
    expect(await cleanup(domain, identity.key)).toMatchObject({
      failure: { code: 'active_lease', stage: 'lifecycle', retryable: true },
    });
    await holder.kill();
    expect(await cleanup(domain, identity.key)).toMatchObject({ ok: true, value: { removed: true } });
  });

  test('a lease held here makes their cleanup refuse', async () => {
    const domain = await ours();
    await buildOurs(domain);
    const { store } = await python.open({ root });
    const found = await lookup(domain, identity, { deadline: null });
    if (found.status !== 'hit') throw new Error(found.status);
    expect(await python.cleanup(store, text)).toMatchObject({ code: 'active_lease', retryable: true });
    found.lease.close();
    expect(await python.cleanup(store, text)).toBeNull();
    expect(readdirSync(join(root, 'artifacts'))).toEqual([]);
  });

  test('a build lock held there is waited for here and times out; freed by a kill, the build goes on', async () => {
    const domain = await ours();
    const holder = await PythonSide.start();
    await holder.holdLock(join(root, 'locks', `${identity.key}.build.lock`));
    expect(await buildOurs(domain, { timeoutMs: 120 })).toMatchObject({
      status: 'timeout',
      failure: { code: 'active_build_timeout', stage: 'production', retryable: true },
    });
    expect(await cleanup(domain, identity.key)).toMatchObject({ failure: { code: 'active_build_timeout' } });
    const waiting = buildOurs(domain);
    await holder.kill();
    expect((await waiting).status).toBe('built');
  });

  test('a build lock held here is waited for there and times out', async () => {
    const domain = await ours();
    const { store } = await python.open({ root });
    const lock = await FileLock.exclusive(join(root, 'locks', `${identity.key}.build.lock`), {
      deadline: null,
    });
    expect(await python.build(store, text, { ...production, timeoutSeconds: 0.2 })).toMatchObject({
      status: 'timeout',
      failure: { code: 'active_build_timeout', stage: 'production' },
    });
    const waiting = python.build(store, text, production);
    lock.release();
    expect((await waiting).status).toBe('built');
    expect(await lookup(domain, identity, { deadline: null }).then((found) => release(found))).toBe('hit');
  });

  test('they join what we build', async () => {
    const domain = await ours();
    const { store } = await python.open({ root });
    const gate = Promise.withResolvers<void>();
    const inside = Promise.withResolvers<void>();
    const building = buildOurs(domain, {
      inside: async () => {
        inside.resolve();
        await gate.promise;
      },
    });
    await inside.promise;
    const joining = python.build(store, text, production);
    // Their first lookup misses before they wait for the build lock; only then may we go on.
    await untilPolled(join(root, 'locks', `${identity.key}.build.lock`), python.pid);
    gate.resolve();
    expect((await building).status).toBe('built');
    expect((await joining).status).toBe('joined');
  });

  test('we join what they build', async () => {
    const domain = await ours();
    const { store } = await python.open({ root });
    const building = python.holdBuild(store, text, production, 'start');
    expect(await building.producing).toBe(true);
    const waiting = Promise.withResolvers<void>();
    const joining = buildOurs(domain, {
      onPhase: (phase) => phase === 'waiting-for-build-lock' && waiting.resolve(),
    });
    await waiting.promise;
    building.tell('go');
    expect((await building.result).status).toBe('built');
    expect((await joining).status).toBe('joined');
  });

  test('a producer of theirs that dies leaves what we clear away and build', async () => {
    const domain = await ours();
    const builder = await PythonSide.start();
    const { store } = await builder.open({ root });
    const building = builder.holdBuild(store, text, production, 'written');
    building.result.catch(() => undefined);
    expect(await building.producing).toBe(true);
    await builder.kill();
    expect(readdirSync(join(root, 'tmp'))).toHaveLength(1);
    expect((await buildOurs(domain)).status).toBe('built');
    expect(readdirSync(join(root, 'tmp'))).toEqual([]);
  });
});

function release(found: Awaited<ReturnType<typeof lookup>>): string {
  if (found.status === 'hit') found.lease.close();
  return found.status;
}

/** Waits until a process has a lock file open: it polls without waiting inside the kernel. */
async function untilPolled(path: string, pid: number): Promise<void> {
  for (;;) {
    const open = readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8') !== '' && realPathOf(pid, fd) === path;
      } catch {
        return false;
      }
    });
    if (open) return;
    await new Promise((done) => setTimeout(done, 10));
  }
}

function realPathOf(pid: number, fd: string): string {
  return readlink(`/proc/${pid}/fd/${fd}`);
}

describe('inventory', () => {
  test('inspect_domain and our inventory agree entry by entry', async () => {
    const domain = await ours();
    const { store } = await python.open({ root });
    await buildOurs(domain);
    // Denied: a byte flipped and seen at the full level.
    const denied = identityOf(identityText('denied'));
    await python.build(store, identityText('denied'), production);
    const payload = join(root, 'artifacts', denied.key, 'one.safetensors');
    chmodSync(payload, 0o600);
    appendFileSync(payload, 'x');
    chmodSync(payload, 0o444);
    expect((await lookup(domain, denied, { deadline: null })).status).toBe('invalid');
    // Quarantined, temporary, and what no state explains.
    const name = (label: string, rest: string): string => `${identityOf(identityText(label)).key}.${rest}`;
    mkdirSync(join(root, 'quarantine', name('q', 'validation_failure.00ff')));
    writeFileSync(join(root, 'quarantine', name('q', 'validation_failure.00ff'), 'bytes'), 'abc');
    mkdirSync(join(root, 'tmp', name('t', '123.00ff')));
    writeFileSync(join(root, 'tmp', name('t', '123.00ff'), 'partial.safetensors'), Buffer.alloc(1000));
    writeFileSync(join(root, 'deny', `${name('d', 'json')}`), 'not json');
    mkdirSync(join(root, 'source-digests-v1'));
    writeFileSync(join(root, 'source-digests-v1', 'x'), 'digest');
    writeFileSync(join(root, 'artifacts', 'README'), 'not an artifact');

    const theirs = await python.inspectDomain(store);
    const mine = await inventory(domain);
    expect(
      mine.entries.map((entry) => ({
        artifactKey: entry.key,
        state: entry.state,
        storageName: entry.name,
        sizeBytes: entry.bytes,
      })),
    ).toEqual(theirs.inventory.map(({ reason: _reason, ...entry }) => entry));
    expect(mine.storeBytes).toBe(theirs.storeBytes);
    expect(mine.entries.filter((entry) => entry.state === 'denied').map((entry) => entry.reason)).toEqual(
      theirs.inventory.filter((entry) => entry.state === 'denied').map((entry) => entry.reason),
    );
    const explained = mine.entries.reduce((total, entry) => total + entry.bytes, 0);
    const other = mine.other.reduce((total, entry) => total + entry.bytes, 0);
    expect(explained + other).toBe(mine.storeBytes);
  });
});

describe('verdicts', () => {
  const artifact = (): string => join(root, 'artifacts', identity.key);
  const edit = (name: string, change: (text: string) => string): void => {
    const path = join(artifact(), name);
    const before = readFileSync(path, 'latin1');
    chmodSync(path, 0o600);
    writeFileSync(path, change(before), 'latin1');
    chmodSync(path, 0o444);
  };
  const flip = (name: string, at: (bytes: Buffer) => number): void => {
    const path = join(artifact(), name);
    const bytes = readFileSync(path);
    const index = at(bytes);
    bytes[index] = (bytes[index] as number) ^ 1;
    chmodSync(path, 0o600);
    writeFileSync(path, bytes);
    chmodSync(path, 0o444);
  };

  /** Each harms a published artifact in one way; both programs must come to the same verdict. */
  const harms: Record<string, () => void> = {
    'nothing at all': () => undefined,
    'a payload byte flipped': () => flip('one.safetensors', (bytes) => bytes.length - 1),
    'a header byte flipped': () => flip('one.safetensors', (bytes) => bytes.indexOf('BF16')),
    'a payload too long': () => edit('one.safetensors', (bytes) => `${bytes}x`),
    'a payload too short': () => {
      chmodSync(join(artifact(), 'two.safetensors'), 0o600);
      truncateSync(join(artifact(), 'two.safetensors'), 20);
      chmodSync(join(artifact(), 'two.safetensors'), 0o444);
    },
    'a payload missing': () => rmSync(join(artifact(), 'two.safetensors')),
    'a payload that can be written': () => chmodSync(join(artifact(), 'two.safetensors'), 0o644),
    'a payload with two links': () => linkSync(join(artifact(), 'two.safetensors'), join(base, 'link')),
    'a payload behind a link': () => {
      renameSync(join(artifact(), 'two.safetensors'), join(base, 'elsewhere'));
      symlinkSync(join(base, 'elsewhere'), join(artifact(), 'two.safetensors'));
    },
    'an extra file': () => writeFileSync(join(artifact(), 'extra'), ''),
    'no marker': () => rmSync(join(artifact(), 'READY.json')),
    'a marker that is no JSON': () => edit('READY.json', (json) => json.slice(1)),
    'a marker that is a list': () => edit('READY.json', () => '[]'),
    'a marker of another schema': () =>
      edit('READY.json', (json) => json.replace('"schema_version":1', '"schema_version":2')),
    'a marker with a boolean schema': () =>
      edit('READY.json', (json) => json.replace('"schema_version":1', '"schema_version":true')),
    'a marker with a float schema': () =>
      edit('READY.json', (json) => json.replace('"schema_version":1', '"schema_version":1.0')),
    'another integrity mode': () => edit('READY.json', (json) => json.replace('full_checksum', 'fs_verity')),
    'another content digest in the marker': () =>
      edit('READY.json', (json) =>
        json.replace(/("artifact_content_sha256":")./, '$10').replace(/:"0f/, ':"00'),
      ),
    'another manifest digest in the marker': () =>
      edit('READY.json', (json) => json.replace(/("manifest_sha256":")[0-9a-f]{4}/, '$1abcd')),
    'a marker with a key more': () => edit('READY.json', (json) => json.replace('{', '{"more":1,')),
    'a publication id that is not ASCII': () =>
      edit('READY.json', (json) => json.replace(/("publication_id":")[0-9a-f]+/, '$1\\u00e9')),
    'a manifest with blanks': () => edit('manifest.json', (json) => json.replaceAll(',', ' , ')),
    'a manifest with a byte order mark': () => edit('manifest.json', (json) => `\xef\xbb\xbf${json}`),
    'a manifest with a duplicate key': () =>
      edit('manifest.json', (json) => json.replace('{', '{"schema_version":7,')),
    'a manifest with another role': () =>
      edit('manifest.json', (json) => json.replace('"role":"mask"', '"role":"make"')),
    'a manifest with a negative size': () =>
      edit('manifest.json', (json) => json.replace(/"size":/, '"size":-')),
    'a manifest with a boolean size': () =>
      edit('manifest.json', (json) => json.replace(/"nbytes":\d+/, '"nbytes":true')),
    'a manifest of another schema': () =>
      edit('manifest.json', (json) =>
        json.replace('"schema_version":1,"tensors"', '"schema_version":3,"tensors"'),
      ),
    'a manifest of another identity': () =>
      edit('manifest.json', (json) => json.replace('"model_id":"both"', '"model_id":"else"')),
    'a manifest with a NaN': () =>
      edit('manifest.json', (json) => json.replace('"format_metadata":{}', '"format_metadata":NaN')),
    'a directory that can be written': () => chmodSync(artifact(), 0o755),
    'a sticky directory': () => chmodSync(artifact(), 0o1555),
    'a file in its place': () => {
      widen(artifact());
      rmSync(artifact(), { recursive: true });
      writeFileSync(artifact(), '');
    },
    'a link in its place': () => {
      chmodSync(artifact(), 0o700);
      renameSync(artifact(), join(base, 'moved'));
      symlinkSync(join(base, 'moved'), artifact());
    },
    'an empty deny marker': () => writeFileSync(join(root, 'deny', `${identity.key}.json`), ''),
    'no entry but a deny marker': () => {
      widen(artifact());
      rmSync(artifact(), { recursive: true });
      writeFileSync(join(root, 'deny', `${identity.key}.json`), '');
    },
  };

  test.each(Object.keys(harms))('%s', async (harm) => {
    const domain = await ours();
    await buildOurs(domain);
    const { store } = await python.open({ root });
    chmodSync(artifact(), 0o755);
    chmodSync(artifact(), 0o555);
    harms[harm]?.();
    for (const validation of validationLevels) {
      const theirs = await python.inspectArtifact(store, text, validation);
      const mine = await inspectArtifact(domain, identity, { validation });
      expect({ status: mine.status, ...codeOf('failure' in mine ? mine.failure : null) }, validation).toEqual(
        {
          status: theirs.status,
          ...codeOf(theirs.failure),
        },
      );
      if (mine.status === 'hit') mine.lease.close();
    }
    // And a real lookup leaves the same traces, whoever makes it: denied for the other side from then on.
    const mine = await lookup(domain, identity, { validation: 'full_checksum', deadline: null });
    if (mine.status === 'hit') mine.lease.close();
    const theirs = await python.lookup(store, text, { validation: 'full_checksum' });
    expect(theirs.status).toBe(mine.status);
  });
});

function codeOf(failure: { stage: string; code: string; retryable: boolean } | null): object {
  return failure === null ? {} : { stage: failure.stage, code: failure.code, retryable: failure.retryable };
}

describe('resolve', () => {
  test.each(['disabled', 'preferred', 'required'] as const)('%s comes to the same outcome', async (mode) => {
    const domain = await ours({ capacity: { maxArtifactBytes: 100_000 } });
    const opened = async () => openDomain(root);
    const compare = async (timeoutMs: number, withProducer: boolean): Promise<string> => {
      const mine = await resolve(mode, opened, identity, withProducer ? producerOf(identity) : null, {
        deadline: deadlineIn(timeoutMs),
      });
      mine.lease?.close();
      const theirs = await python.resolve(mode, {
        domain: { root, capacity: { maxArtifactBytes: 100_000 } },
        identity: text,
        timeoutSeconds: timeoutMs / 1000,
        ...(withProducer ? { production } : {}),
      });
      expect(mine.outcome).toBe(theirs.outcome);
      expect(mine.attempts.map(({ stage, result, action }) => ({ stage, result, action }))).toEqual(
        theirs.attempts.map(({ stage, result, action }) => ({ stage, result, action })),
      );
      return mine.outcome;
    };
    await compare(5000, false);
    const lock = await FileLock.exclusive(join(root, 'locks', `${identity.key}.build.lock`), {
      deadline: null,
    });
    await compare(150, true);
    lock.release();
    await buildOurs(domain);
    await compare(5000, true);
  });
});

type Random = () => number;

/** mulberry32: small, seeded, good enough to pick documents. */
function generator(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

function randomDocument(random: Random, depth: number): string {
  const pick = Math.floor(random() * (depth > 0 ? 8 : 6));
  if (pick === 0) return ['null', 'true', 'false'][Math.floor(random() * 3)] as string;
  if (pick === 1) return String(Math.floor((random() - 0.5) * 2 ** 54));
  if (pick === 2)
    return `${random() < 0.5 ? '-' : ''}${1 + Math.floor(random() * 9)}${digits(random, Math.floor(random() * 40))}`;
  if (pick === 3) return randomFloat(random);
  if (pick <= 5) return randomString(random);
  const items = Array.from({ length: Math.floor(random() * 5) }, () => randomDocument(random, depth - 1));
  if (pick === 6) return `[${items.join(', ')}]`;
  return `{${items.map((item) => `${randomString(random)}: ${item}`).join(',\n')}}`;
}

function digits(random: Random, count: number): string {
  return Array.from({ length: count }, () => Math.floor(random() * 10)).join('');
}

function randomFloat(random: Random): string {
  if (random() < 0.5) return (random() * 10 ** Math.floor(random() * 40 - 20)).toExponential();
  const bytes = Buffer.alloc(8);
  for (let index = 0; index < 8; index += 1) bytes[index] = Math.floor(random() * 256);
  const value = bytes.readDoubleLE();
  return Number.isFinite(value) ? value.toExponential() : '0.0';
}

function randomString(random: Random): string {
  const units = [
    'a',
    'Z',
    '0',
    '"',
    '\\',
    '/',
    '\n',
    '\x7f',
    '\u00e9',
    '\u2028',
    '\ud800',
    '\udfff',
    '\uffff',
    '\u{1f600}',
  ];
  const text = Array.from(
    { length: Math.floor(random() * 6) },
    () => units[Math.floor(random() * units.length)],
  ).join('');
  return JSON.stringify(text);
}
