import { expect, test } from 'vitest';
import type { SnapshotRow } from '../../../src/host/store-snapshot.ts';
import { treemapOf } from '../../../src/host/treemap.ts';

function row(model: string | null, bytes: number, more: Partial<SnapshotRow> = {}): SnapshotRow {
  const key = `${bytes}`.padEnd(64, '0');
  return {
    id: `ready/${key}`,
    key,
    state: 'ready',
    name: key,
    bytes,
    allocatedBytes: bytes,
    reason: null,
    served: true,
    invalidated: false,
    denied: false,
    building: false,
    modifiedAtMs: 0,
    model,
    modelRevision: null,
    component: model === null ? null : 'transformer',
    representation: null,
    dtype: null,
    layout: model === null ? null : 'contiguous',
    tensorParallelSize: model === null ? null : 2,
    tensorParallelRank: model === null ? null : 1,
    producer: null,
    problem: null,
    ...more,
  };
}

const rows = [
  row('small', 1),
  row('large', 10),
  row('large', 30, { served: false, denied: true }),
  row(null, 20, { state: 'temporary' }),
  row('small', 5, { state: 'denied' }),
];

test('the largest comes first at every level; deny markers are left out', () => {
  const models = treemapOf(rows);
  expect(models.map(({ model, bytes, entries }) => [model, bytes, entries])).toEqual([
    ['large', 40, 2],
    [null, 20, 1],
    ['small', 1, 1],
  ]);
  expect(models[0]?.layouts).toMatchObject([
    {
      layout: 'contiguous TP2',
      artifacts: [
        { bytes: 30, state: 'unserved', label: 'transformer rank 1' },
        { bytes: 10, state: 'ready' },
      ],
      rest: { entries: 0, bytes: 0 },
    },
  ]);
  expect(models[1]?.layouts).toMatchObject([{ layout: null, artifacts: [{ state: 'leftover' }] }]);
});

test('what is too small to be seen is summed up', () => {
  const [large, unknown, small] = treemapOf(rows, 2);
  expect(large?.layouts[0]?.rest).toEqual({ entries: 1, bytes: 10 });
  expect(unknown?.layouts[0]?.artifacts).toHaveLength(1);
  expect(small?.layouts[0]).toMatchObject({ artifacts: [], rest: { entries: 1, bytes: 1 } });
});
