/** The identity of an artifact: what it must hold, and the key that CPython computes for the same document. */
import { describe, expect, test } from 'vitest';
import { parseJson } from '../../../src/store/json-parser.ts';
import type { JsonObject, JsonValue } from '../../../src/store/canonical-json.ts';
import { ArtifactIdentity, DocumentError } from '../../../src/store/identity.ts';
import { identityOf } from '../../fixtures/store-payloads.ts';

const sections: Record<string, JsonObject> = {
  source: { model_id: 'org/model', revision: 'abc', fingerprint: 'f', metadata: {} },
  component: { name: 'transformer', ownership: 'shared', metadata: {} },
  representation: { name: 'preserve', dtype: 'torch.bfloat16', metadata: {} },
  layout: {
    name: 'tp',
    tensor_parallel_size: 2,
    tensor_parallel_rank: 1,
    sequence_parallel_size: 1,
    sequence_parallel_backend: 'none',
    metadata: {},
  },
  adaptation: { kind: 'base', fingerprint: null, metadata: {} },
  producer: {
    producer_id: 'p',
    version: '1',
    implementation_fingerprint: 'i',
    manifest_schema: 'm',
    restorer_schema: 'r',
  },
};
const valid: JsonObject = { schema_version: 1, ...sections };

/** The valid document with one value put at a path, or taken away. */
function changed(path: string, value?: JsonValue): JsonObject {
  const [first = '', second] = path.split('.');
  if (second === undefined) return put(valid, first, value);
  return put(valid, first, put(valid[first] as JsonObject, second, value));
}

function put(object: JsonObject, key: string, value: JsonValue | undefined): JsonObject {
  const { [key]: _, ...rest } = object;
  return value === undefined ? rest : { ...rest, [key]: value };
}

test('the key is the digest that CPython gives for the same identity, metadata traps included', () => {
  const metadata =
    '{"f":1.0,"g":1e-05,"big":123456789012345678901234567890,"z":-0.0,"\\uffff":1,"\\ud83d\\ude00":[true,null],"e":1e22,"Zoë":"\\u007f/"}';
  const identity = ArtifactIdentity.of(changed('source.metadata', parseJson(metadata)));
  expect(identity.key).toBe('fe80142a4cf895e6e51510c8dfa3faa5444461e59b1e0bc25dcaeb8e1c3acf10');
  expect(ArtifactIdentity.parse(Buffer.from(identity.canonical)).key).toBe(identity.key);
  expect(ArtifactIdentity.of(identity.document).equals(identity)).toBe(true);
});

test('the order of sections and keys does not matter, a float and an integer differ', () => {
  const backwards = Object.fromEntries(Object.entries(valid).reverse());
  expect(ArtifactIdentity.of(backwards).key).toBe(ArtifactIdentity.of(valid).key);
  const key = (text: string): string => ArtifactIdentity.of(changed('layout.metadata', parseJson(text))).key;
  expect(key('{"scale":1.0}')).not.toBe(key('{"scale":1}'));
  expect(key('{"scale":1.0}')).toBe(key('{"scale":10e-1}'));
});

describe('what is refused', () => {
  const text = Object.entries(sections).flatMap(([section, keys]) =>
    Object.keys(keys)
      .filter((key) => typeof sections[section]?.[key] === 'string')
      .map((key) => `${section}.${key}`),
  );

  test.each(text)('%s that is empty, not text, or not there', (path) => {
    for (const value of ['', null, 1, {}, undefined] as const) {
      expect(() => ArtifactIdentity.of(changed(path, value))).toThrow(DocumentError);
    }
  });

  test.each(Object.keys(sections))('%s that is missing, a list, or has a key too much', (section) => {
    for (const value of [undefined, [], 'x', null] as const) {
      expect(() => ArtifactIdentity.of(changed(section, value))).toThrow(DocumentError);
    }
    const extra = { ...sections[section], extra: 1 };
    expect(() => ArtifactIdentity.of(changed(section, extra))).toThrow('unexpected "extra"');
  });

  test.each([
    ['schema_version', '0'],
    ['schema_version', '1.0'],
    ['schema_version', 'true'],
    ['schema_version', '"1"'],
    ['layout.tensor_parallel_size', '0'],
    ['layout.tensor_parallel_size', '1'],
    ['layout.tensor_parallel_size', '2.0'],
    ['layout.tensor_parallel_rank', '2'],
    ['layout.tensor_parallel_rank', '-1'],
    ['layout.tensor_parallel_rank', 'true'],
    ['layout.sequence_parallel_size', '0'],
    ['layout.sequence_parallel_size', 'null'],
    ['adaptation.fingerprint', '""'],
    ['adaptation.fingerprint', '1'],
    ['adaptation.kind', '"lora"'],
    ['dp_rank', '0'],
  ])('%s as %s', (path, value) => {
    expect(() => ArtifactIdentity.of(changed(path, parseJson(value)))).toThrow(DocumentError);
  });

  test('the message names the place', () => {
    expect(() => ArtifactIdentity.of(changed('producer.version'))).toThrow('identity.producer lacks version');
    expect(() => ArtifactIdentity.of(changed('adaptation.kind', 'lora'))).toThrow('adaptation.fingerprint');
    expect(() => ArtifactIdentity.of([])).toThrow('must be an object');
  });
});

test.each([
  ['schema_version', '99999999999999999999'],
  ['layout.tensor_parallel_size', '99999999999999999999'],
  ['source.metadata', '[1,"x",null]'],
  ['source.metadata', 'null'],
])('%s as %s is taken', (path, value) => {
  expect(ArtifactIdentity.of(changed(path, parseJson(value))).key).toMatch(/^[0-9a-f]{64}$/);
});

test('an adaptation of another kind with a fingerprint is taken', () => {
  const lora = { kind: 'lora', fingerprint: 'x', metadata: {} };
  expect(ArtifactIdentity.of(changed('adaptation', lora)).document.adaptation.kind).toBe('lora');
});

test('two labels are two identities', () => {
  expect(identityOf('a').key).not.toBe(identityOf('b').key);
  expect(identityOf('a').equals(identityOf('a'))).toBe(true);
});
