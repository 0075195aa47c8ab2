/** Making, opening and refusing domains. A refusal never changes a byte. */
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createDomain, openDomain, resolveRoot, type DomainRequest } from '../../../src/store/domain.ts';
import { inventory } from '../../../src/store/inventory.ts';
import { store, temporaryFolder, valueOf, type Ground, type Scenario } from '../../fixtures/store.ts';

function documents(root: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(root, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => {
        const { ino, mtimeMs, mode } = lstatSync(join(root, name));
        return [name, `${ino} ${mtimeMs} ${mode} ${readFileSync(join(root, name), 'latin1')}`];
      }),
  );
}

async function expectRefusal(root: string, attempt: Promise<unknown>, failure: object): Promise<void> {
  const before = documents(root);
  expect(await attempt).toMatchObject({ ok: false, failure });
  expect(documents(root)).toEqual(before);
}

/** Rewrites one of the two documents as somebody else might have left it. */
function withDocument({ root }: Scenario, name: string, text: string): void {
  rmSync(join(root, name));
  writeFileSync(join(root, name), text, { mode: 0o444 });
}

const mismatch = { stage: 'configuration', code: 'domain_policy_mismatch', retryable: false };
const limits = { maxArtifactBytes: 1000, maxStoreBytes: 2000, minFreeBytes: 1 };

test.each<Ground>(['disk', 'tmpfs'])(
  'a domain on %s is made once, as the specification lays it out',
  async (ground) => {
    const root = join(temporaryFolder(ground), 'deep', 'er', 'domain');
    const request: DomainRequest = { root, scope: 'numa', domainId: 'numa-1', capacity: limits };
    const first = valueOf(await createDomain(request));
    expect(first.existing).toBe(false);
    expect(readdirSync(root).sort()).toEqual(
      ['artifacts', 'deny', 'domain-policy.json', 'domain.json', 'locks', 'quarantine', 'tmp'].sort(),
    );
    expect(readFileSync(join(root, 'domain.json'), 'utf8')).toBe(
      `{"backend":"local_filesystem","domain_id":"numa-1","domain_uuid":"${first.domain.uuid}","filesystem_type":"${first.domain.filesystemType}","schema_version":1,"scope":"numa","storage_class":"${first.domain.storageClass}"}`,
    );
    expect(first.domain.uuid).toMatch(/^[0-9a-f]{32}$/);
    expect(lstatSync(join(root, 'locks', 'domain-init.lock')).mode & 0o7777).toBe(0o600);

    const before = documents(root);
    const second = valueOf(await createDomain(request));
    expect(second).toEqual({ domain: first.domain, existing: true });
    expect(valueOf(await openDomain(root))).toEqual(first.domain);
    expect(documents(root)).toEqual(before);
  },
);

describe('asked for in another way than it is', () => {
  test.each<[string, Partial<DomainRequest>]>([
    ['a larger store', { capacity: { ...limits, maxStoreBytes: 2001 } }],
    ['a store without limit', { capacity: { ...limits, maxStoreBytes: null } }],
    ['a smaller artifact', { capacity: { ...limits, maxArtifactBytes: 999 } }],
    ['more space to keep free', { capacity: { ...limits, minFreeBytes: 2 } }],
    ['another scope', { scope: 'numa' }],
    ['another id', { domainId: 'other' }],
    ['serialized admission', { admission: 'serialized' }],
  ])('%s is refused', async (_, change) => {
    const { root } = await store({ ...limits }).made();
    await expectRefusal(root, createDomain({ root, capacity: limits, ...change }), mismatch);
  });

  test('another storage class is refused before anything is made', async () => {
    const root = join(temporaryFolder('tmpfs'), 'domain');
    expect(await createDomain({ root, storageClass: 'disk' })).toMatchObject({
      ok: false,
      failure: { stage: 'domain', code: 'storage_class_mismatch', retryable: false },
    });
    expect(existsSync(root)).toBe(false);
  });

  test.each<[string, object]>([
    ['an unknown scope', { scope: 'rack' }],
    ['an empty id', { domainId: '' }],
    ['a limit of 0', { capacity: { maxStoreBytes: 0 } }],
    ['a negative limit', { capacity: { maxArtifactBytes: -1 } }],
    ['half a byte', { capacity: { maxArtifactBytes: 1.5 } }],
    ['a limit past the exact numbers', { capacity: { maxStoreBytes: 2 ** 53 } }],
    ['NaN', { capacity: { minFreeBytes: NaN } }],
    ['a negative space to keep free', { capacity: { minFreeBytes: -1 } }],
  ])('%s is wrong use, and nothing is made', async (_, change) => {
    const root = join(temporaryFolder(), 'domain');
    const outcome = await createDomain({ root, ...(change as Partial<DomainRequest>) });
    expect(outcome).toMatchObject({ ok: false, failure: { code: 'invalid_config', retryable: false } });
    expect(existsSync(root)).toBe(false);
  });
});

describe('documents that are not ours', () => {
  const policy = {
    schema_version: 1,
    policy_version: 1,
    max_artifact_bytes: null,
    max_store_bytes: null,
    min_free_bytes: 0,
    eviction: 'none',
  };
  const changedPolicies: [string, object][] = [
    ['a field too much', { ...policy, extra: 1 }],
    ['another schema', { ...policy, schema_version: 3 }],
    ['eviction', { ...policy, eviction: 'lru' }],
    ['serialized admission in schema 1', { ...policy, build_admission: 'serialized' }],
    ['serialized admission without a limit', { ...policy, schema_version: 2, build_admission: 'serialized' }],
    ['another admission', { ...policy, schema_version: 2, max_store_bytes: 5, build_admission: 'other' }],
    ['a limit of 0', { ...policy, max_store_bytes: 0 }],
    ['a limit that is text', { ...policy, max_store_bytes: '5' }],
    ['a limit that is true', { ...policy, max_store_bytes: true }],
    ['a negative space to keep free', { ...policy, min_free_bytes: -1 }],
    ['policy version 0', { ...policy, policy_version: 0 }],
    ['a policy version that is text', { ...policy, policy_version: '1' }],
    ['no eviction', Object.fromEntries(Object.entries(policy).filter(([key]) => key !== 'eviction'))],
  ];

  test.each(changedPolicies)('a policy with %s is refused by both ways of opening', async (_, document) => {
    const scenario = await store().made();
    withDocument(scenario, 'domain-policy.json', JSON.stringify(document));
    await expectRefusal(scenario.root, openDomain(scenario.root), mismatch);
    await expectRefusal(scenario.root, createDomain({ root: scenario.root }), mismatch);
  });

  test('a later policy version is adopted, and so is JSON that is not canonical', async () => {
    const scenario = await store().made();
    withDocument(
      scenario,
      'domain-policy.json',
      `\ufeff ${JSON.stringify({ ...policy, policy_version: 7 }, null, 2)}`,
    );
    expect(valueOf(await openDomain(scenario.root)).policyVersion).toBe(7);
    expect(valueOf(await createDomain({ root: scenario.root })).domain.policyVersion).toBe(7);
  });

  test.each<[string, object]>([
    ['another schema', { schema_version: 2 }],
    ['another backend', { backend: 'remote' }],
    ['an unknown scope', { scope: 'rack' }],
    ['an empty id', { domain_id: '' }],
    ['another file system', { filesystem_type: 'zzz' }],
    ['another storage class', { storage_class: 'other' }],
    ['an empty uuid', { domain_uuid: '' }],
    ['a uuid that is not text', { domain_uuid: 5 }],
    ['a uuid that is not ASCII', { domain_uuid: 'é' }],
    ['a field too much', { extra: null }],
  ])('a domain.json with %s is refused by both ways of opening', async (_, change) => {
    const scenario = await store().made();
    const actual = JSON.parse(readFileSync(join(scenario.root, 'domain.json'), 'utf8')) as object;
    withDocument(scenario, 'domain.json', JSON.stringify({ ...actual, ...change }));
    await expectRefusal(scenario.root, openDomain(scenario.root), mismatch);
    await expectRefusal(scenario.root, createDomain({ root: scenario.root }), mismatch);
  });

  test('any other ASCII uuid is taken', async () => {
    const scenario = await store().made();
    const actual = JSON.parse(readFileSync(join(scenario.root, 'domain.json'), 'utf8')) as object;
    withDocument(scenario, 'domain.json', JSON.stringify({ ...actual, domain_uuid: 'made by hand' }));
    expect(valueOf(await openDomain(scenario.root)).uuid).toBe('made by hand');
  });

  test.each(['domain.json', 'domain-policy.json'])(
    'a %s that is not JSON, a link, or linked twice',
    async (name) => {
      const scenario = await store().made();
      const path = join(scenario.root, name);
      const text = readFileSync(path, 'utf8');
      withDocument(scenario, name, text.slice(0, -1));
      await expectRefusal(scenario.root, openDomain(scenario.root), mismatch);
      withDocument(scenario, name, '[]');
      await expectRefusal(scenario.root, openDomain(scenario.root), mismatch);
      withDocument(scenario, name, text);
      linkSync(path, join(scenario.root, 'second-name'));
      await expectRefusal(scenario.root, openDomain(scenario.root), mismatch);
      rmSync(join(scenario.root, 'second-name'));
      renameSync(path, join(scenario.root, 'moved.json'));
      symlinkSync('moved.json', path);
      expect(await openDomain(scenario.root)).toMatchObject({ ok: false });
      expect(await createDomain({ root: scenario.root })).toMatchObject({ ok: false });
    },
  );
});

describe('trusted permissions', () => {
  test.each(['.', 'locks', 'artifacts', 'tmp', 'quarantine', 'deny'])(
    '%s that others may write',
    async (name) => {
      const { root } = await store().made();
      chmodSync(join(root, name), 0o770);
      const refusal = { stage: 'domain', code: 'domain_unavailable', retryable: false };
      await expectRefusal(root, openDomain(root), refusal);
      await expectRefusal(root, createDomain({ root }), refusal);
      expect(await openDomain(root, { requireTrustedPermissions: false })).toMatchObject({ ok: true });
    },
  );

  test('a link in the place of a directory', async () => {
    const { root } = await store().made();
    const elsewhere = temporaryFolder();
    rmSync(join(root, 'quarantine'), { recursive: true });
    symlinkSync(elsewhere, join(root, 'quarantine'));
    const refusal = { code: 'domain_unavailable', retryable: false };
    await expectRefusal(root, openDomain(root), refusal);
    await expectRefusal(root, createDomain({ root }), refusal);
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  test('what others may only read is fine', async () => {
    const { root } = await store().made();
    chmodSync(root, 0o755);
    expect(await openDomain(root)).toMatchObject({ ok: true });
  });
});

describe('opening what is not a store', () => {
  test.each<[string, (folder: string) => string, object]>([
    ['nothing', (folder) => join(folder, 'nothing'), { code: 'domain_unavailable', retryable: true }],
    ['an empty folder', (folder) => folder, { code: 'invalid_config', retryable: false }],
    [
      'a file',
      (folder) => {
        writeFileSync(join(folder, 'file'), '');
        return join(folder, 'file');
      },
      { code: 'invalid_config' },
    ],
    ['an empty path', () => '', { code: 'invalid_config' }],
    ['/proc', () => '/proc', { code: 'domain_policy_mismatch' }],
  ])('%s', async (_, pathIn, failure) => {
    const folder = temporaryFolder();
    const path = pathIn(folder);
    const before = readdirSync(folder);
    expect(await openDomain(path)).toMatchObject({ ok: false, failure });
    expect(readdirSync(folder)).toEqual(before);
  });

  test('a folder with a missing directory is completed by making, not by opening', async () => {
    const { root } = await store().made();
    rmSync(join(root, 'deny'), { recursive: true });
    expect(await openDomain(root)).toMatchObject({ ok: false, failure: { code: 'domain_unavailable' } });
    expect(existsSync(join(root, 'deny'))).toBe(false);
    expect(valueOf(await createDomain({ root })).existing).toBe(true);
    expect(existsSync(join(root, 'deny'))).toBe(true);
  });
});

test('a root is named by its real path, with the home directory expanded', async () => {
  const { root } = await store().made();
  const link = join(temporaryFolder(), 'link');
  symlinkSync(root, link);
  expect(valueOf(await openDomain(link)).root).toBe(realpathSync(root));
  expect(resolveRoot('~/models/x/../y')).toBe(join(realpathSync(homedir()), 'models/y'));
  expect(resolveRoot(join(link, 'not', 'there'))).toBe(join(root, 'not', 'there'));
});

test('many at once make one domain', async () => {
  const root = join(temporaryFolder(), 'domain');
  const made = await Promise.all(Array.from({ length: 8 }, () => createDomain({ root })));
  const all = made.map(valueOf);
  expect(new Set(all.map(({ domain }) => domain.uuid)).size).toBe(1);
  expect(all.filter(({ existing }) => !existing)).toHaveLength(1);
  expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([]);
});

describe('the inventory', () => {
  test('explains every byte, in the order of the published package', async () => {
    const scenario = await store()
      .artifact('q')
      .quarantined('publication_failure')
      .artifact('a')
      .denied('manifest_corrupt')
      .deadBuild('b', { bytes: 100 })
      .artifact('c')
      .invalidated()
      .made();
    mkdirSync(join(scenario.root, 'source-digests-v1'));
    writeFileSync(join(scenario.root, 'source-digests-v1', 'x'), '12345');
    writeFileSync(scenario.path('tmp', 'stray'), '123');
    symlinkSync('/', join(scenario.root, 'link'));
    writeFileSync(join(scenario.root, 'loose'), '1');
    const found = await inventory(scenario.domain);
    const labels = new Map(['q', 'a', 'b', 'c'].map((label) => [scenario.key(label), label]));
    expect(
      found.entries
        .map(({ key, state, reason, invalidated }) => [labels.get(key), state, reason, invalidated])
        .sort(),
    ).toEqual([
      ['a', 'denied', 'manifest_corrupt', false],
      ['a', 'ready', null, false],
      ['b', 'temporary', null, false],
      ['c', 'ready', null, true],
      ['q', 'quarantined', 'publication_failure', false],
    ]);
    const order = found.entries.map(({ key, state, name }) => `${key} ${state} ${name}`);
    expect(order).toEqual([...order].sort());
    expect(found.other.map(({ path, bytes }) => [path, bytes])).toEqual([
      ['domain-policy.json', lstatSync(join(scenario.root, 'domain-policy.json')).size],
      ['domain.json', lstatSync(join(scenario.root, 'domain.json')).size],
      ['link', 0],
      ['locks', 0],
      ['loose', 1],
      ['source-digests-v1', 5],
      ['tmp/stray', 3],
    ]);
    const sum = [...found.entries, ...found.other].reduce((total, { bytes }) => total + bytes, 0);
    expect(found.storeBytes).toBe(sum);
    expect(found.storeBytes).toBe(await scenario.storeBytes());
  });

  test.each(['', '[]', '{"reason":5}', 'not JSON'])(
    'a deny marker that holds %j counts all the same',
    async (text) => {
      const scenario = await store().artifact('a').made();
      writeFileSync(scenario.denyPath('a'), text);
      expect(await scenario.entries('denied')).toMatchObject([{ reason: null }]);
      expect(await scenario.lookup('a')).toMatchObject({ failure: { code: 'artifact_denied' } });
    },
  );
});
