/** Case S4: exactly the fields that differ, numbers by their kind, metadata by its keys. */
import { expect, it } from 'vitest';

import { differences } from '../../../src/host/nearest.ts';
import { ArtifactIdentity } from '../../../src/store/identity.ts';
import { parseJson } from '../../../src/store/json-parser.ts';

function identity({ revision = 'r1', version = '1', metadata = '{}' } = {}): ArtifactIdentity {
  return ArtifactIdentity.of(
    parseJson(`{"schema_version":1,
      "source":{"model_id":"m","revision":"${revision}","fingerprint":"f","metadata":${metadata}},
      "component":{"name":"c","ownership":"full","metadata":{}},
      "representation":{"name":"plain","dtype":"torch.bfloat16","metadata":{}},
      "layout":{"name":"l","tensor_parallel_size":1,"tensor_parallel_rank":0,"sequence_parallel_size":1,
        "sequence_parallel_backend":"none","metadata":{}},
      "adaptation":{"kind":"base","fingerprint":null,"metadata":{}},
      "producer":{"producer_id":"p","version":"${version}","implementation_fingerprint":"i","manifest_schema":"m",
        "restorer_schema":"r"}}`),
  );
}

it('names what an upgrade changed, and nothing else', () => {
  const found = differences(identity({ version: '2' }).document, identity().document);
  expect(found).toEqual([{ field: 'producer.version', wanted: '2', stored: '1' }]);
});

it('the same identity has no differences', () => {
  expect(differences(identity().document, identity().document)).toEqual([]);
});

it('looks into metadata, and tells a float from an integer as the key does', () => {
  const found = differences(
    identity({ metadata: '{"scale":1.0,"deep":{"a":1}}' }).document,
    identity({ metadata: '{"scale":1,"deep":{"b":1}}' }).document,
  );
  expect(found.map(({ field }) => field)).toEqual([
    'source.metadata.scale',
    'source.metadata.deep.a',
    'source.metadata.deep.b',
  ]);
  expect(found[1]).toEqual({ field: 'source.metadata.deep.a', wanted: 1, stored: undefined });
});
