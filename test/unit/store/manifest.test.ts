/** The two documents of an artifact: what is read, what is refused, and the digests between them. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/store/canonical-json.ts';
import { parseJson, parseJsonBytes } from '../../../src/store/json-parser.ts';
import { DocumentError } from '../../../src/store/identity.ts';
import { contentDigest, manifestBytes, readManifest, readMarker } from '../../../src/store/manifest.ts';
import { identityOf } from '../../fixtures/store-payloads.ts';

const identity = identityOf('a');
const digest = 'd'.repeat(64);

function tensor(change: JsonObject = {}): JsonObject {
  return {
    name: 'w',
    kind: 'parameter',
    role: 'weight',
    file_name: 'f.safetensors',
    storage_key: 'w',
    shape: [2, 3],
    dtype: 'torch.bfloat16',
    stride: [3, 1],
    nbytes: 12,
    sha256: digest,
    ...change,
  };
}

function file(change: JsonObject = {}): JsonObject {
  return { file_name: 'f.safetensors', size: 20, sha256: digest, ...change };
}

function manifest(change: Record<string, JsonValue | undefined> = {}): JsonObject {
  const document: Record<string, JsonValue | undefined> = {
    schema_version: 1,
    artifact_key: identity.key,
    identity: parseJson(identity.canonical),
    producer_schema: 'm1',
    restorer_schema: 's1',
    tensors: [tensor()],
    files: [file()],
    artifact_content_sha256: digest,
    format_metadata: {},
    ...change,
  };
  for (const [key, value] of Object.entries(document)) if (value === undefined) delete document[key];
  return document as JsonObject;
}

const tensors = (...changes: JsonObject[]): JsonObject => manifest({ tensors: changes.map(tensor) });

test('a manifest is read and written again byte for byte, floats and big integers kept', () => {
  const metadata = parseJson('{"f":1.0,"big":99999999999999999999,"e":1e-07}');
  const read = readManifest(manifest({ format_metadata: metadata }));
  const again = readManifest(parseJsonBytes(manifestBytes(read)));
  expect(manifestBytes(again)).toEqual(manifestBytes(read));
  expect(manifestBytes(read).toString()).toContain(
    '"format_metadata":{"big":99999999999999999999,"e":1e-07,"f":1.0}',
  );
});

test('the content digest leaves out where the bytes lie, and takes in all else', () => {
  const read = (change: JsonObject): string => contentDigest(readManifest(tensors(change)).tensors);
  const { file_name: _file, storage_key: _key, ...rest } = tensor();
  const canonical = `{${Object.keys(rest)
    .sort()
    .map((key) => `"${key}":${JSON.stringify(rest[key])}`)
    .join(',')}}`;
  expect(read({})).toBe(createHash('sha256').update(canonical).digest('hex'));
  expect(read({ storage_key: 'other' })).toBe(read({}));
  const changes = [
    { role: 'scale' },
    { kind: 'buffer' },
    { shape: [3, 2], stride: [2, 1] },
    { dtype: 'torch.int16' },
  ];
  for (const change of changes) expect(read(change)).not.toBe(read({}));
});

describe('a manifest is refused', () => {
  test.each(Object.keys(manifest()))('without %s', (key) => {
    expect(() => readManifest(manifest({ [key]: undefined }))).toThrow(`lacks ${key}`);
  });

  test.each<[string, Record<string, JsonValue | undefined>]>([
    ['with a key too much', { extra: 1 }],
    ['of version 0', { schema_version: 0 }],
    ['of version true', { schema_version: true }],
    ['with the key of another identity', { artifact_key: identityOf('b').key }],
    ['with a key in capitals', { artifact_key: identity.key.toUpperCase() }],
    ['with an identity that is none', { identity: {} }],
    ['with an empty schema', { producer_schema: '' }],
    ['without tensors', { tensors: [] }],
    ['with tensors that are no list', { tensors: {} }],
    ['with a tensor that is no object', { tensors: [1] }],
    ['without files', { files: [] }],
    ['with a digest of 63 digits', { artifact_content_sha256: 'd'.repeat(63) }],
  ])('%s', (_, change) => expect(() => readManifest(manifest(change))).toThrow(DocumentError));

  test.each<[string, JsonObject]>([
    ['an empty name', { name: '' }],
    ['another kind', { kind: 'weight' }],
    ['a numeric kind', { kind: 1 }],
    ['an empty role', { role: '' }],
    ['an empty storage key', { storage_key: '' }],
    ['an empty dtype', { dtype: '' }],
    ['a file that is not listed', { file_name: 'g.safetensors' }],
    ['a path for a file', { file_name: 'x/f.safetensors' }],
    ['a negative dimension', { shape: [-2, 3] }],
    ['a boolean dimension', { shape: [true, 3] }],
    ['a float dimension', { shape: parseJson('[2.0,3]') }],
    ['a shape that is no list', { shape: 6 }],
    ['too few strides', { stride: [1] }],
    ['a negative stride', { stride: [-3, 1] }],
    ['a negative size', { nbytes: -1 }],
    ['a boolean size', { nbytes: true }],
    ['a size past all files', { nbytes: 2n ** 60n }],
    ['a digest in capitals', { sha256: 'D'.repeat(64) }],
    ['a field too much', { extra: 1 }],
  ])('with a tensor that has %s', (_, change) =>
    expect(() => readManifest(tensors(change))).toThrow(DocumentError),
  );

  test.each(['', '.', '..', '/f', 'a/b', 'f\0'])('with a file named %j', (name) => {
    const files = [file({ file_name: name })];
    expect(() => readManifest(manifest({ files, tensors: [tensor({ file_name: name })] }))).toThrow(
      'basename',
    );
  });

  test.each<[string, JsonObject[]]>([
    ['of one name twice', [{ name: 'a' }, { name: 'a', storage_key: 'x' }]],
    ['out of order', [{ name: 'b' }, { name: 'a', storage_key: 'x' }]],
    ['out of order by code point', [{ name: '\u{10000}' }, { name: '\uffff', storage_key: 'x' }]],
    ['that share a storage key', [{ name: 'a' }, { name: 'b' }]],
  ])('with tensors %s', (_, changes) =>
    expect(() => readManifest(tensors(...changes))).toThrow(DocumentError),
  );

  test('with files out of order, or one twice', () => {
    const twice = [file(), file()];
    const unsorted = [file(), file({ file_name: 'a.safetensors' })];
    for (const files of [twice, unsorted]) expect(() => readManifest(manifest({ files }))).toThrow('sorted');
  });

  test('with metadata that has no canonical form', () => {
    expect(() => readManifest(parseJson('{"format_metadata":1e400}'))).toThrow('finite');
  });
});

test('names sort by code point, and a file that no tensor uses is taken', () => {
  const names = [{ name: '\uffff' }, { name: '\u{10000}', storage_key: 'x' }];
  expect(readManifest(tensors(...names)).tensors).toHaveLength(2);
  const files = [file(), file({ file_name: 'unused.bin' })];
  expect(readManifest(manifest({ files })).files).toHaveLength(2);
});

describe('a publication marker', () => {
  const marker = {
    schema_version: 1,
    publication_id: 'any ASCII text',
    manifest_sha256: digest,
    artifact_content_sha256: digest,
    integrity_mode: 'full_checksum',
  };

  test('is read', () => {
    expect(readMarker(marker)).toMatchObject({
      publicationId: 'any ASCII text',
      integrityMode: 'full_checksum',
    });
    // Modes and versions that are not known are for the lookup to tell.
    expect(readMarker({ ...marker, integrity_mode: 'other', schema_version: 7 }).integrityMode).toBe('other');
  });

  test.each<[string, JsonObject]>([
    ['an empty id', { publication_id: '' }],
    ['an id that is not ASCII', { publication_id: 'é' }],
    ['a short digest', { manifest_sha256: 'abc' }],
    ['an empty mode', { integrity_mode: '' }],
    ['version 0', { schema_version: 0 }],
    ['a field too much', { extra: 1 }],
  ])('is refused with %s', (_, change) =>
    expect(() => readMarker({ ...marker, ...change })).toThrow(DocumentError),
  );
});
