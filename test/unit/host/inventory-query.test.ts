import { expect, test } from 'vitest';
import type { InventoryRow } from '../../../src/contract/domain-schemas.ts';
import { InventoryQueries, select } from '../../../src/host/inventory-query.ts';

function row(label: string, more: Partial<InventoryRow> = {}): InventoryRow {
  const key = label.padEnd(64, '0');
  return {
    id: `ready/${key}`,
    key,
    state: 'ready',
    name: key,
    bytes: 1,
    allocatedBytes: 1,
    reason: null,
    served: true,
    invalidated: false,
    denied: false,
    building: false,
    modifiedAtMs: 0,
    model: null,
    modelRevision: null,
    component: null,
    representation: null,
    dtype: null,
    layout: null,
    tensorParallelSize: null,
    tensorParallelRank: null,
    producer: null,
    problem: null,
    lastVerified: null,
    ...more,
  };
}

const rows = [
  row('a', { model: 'org/Wan', dtype: 'bfloat16', bytes: 30, tensorParallelSize: 2, tensorParallelRank: 1 }),
  row('b', { model: 'org/wan', dtype: 'float32', bytes: 10, tensorParallelSize: 2, tensorParallelRank: 0 }),
  row('c', { bytes: 20, state: 'quarantined', reason: 'validation_failure' }),
  row('d', { model: 'other', dtype: 'bfloat16', bytes: 10, tensorParallelSize: 10, tensorParallelRank: 3 }),
];
const everything: Parameters<typeof select>[1] = { search: '', states: [], sort: 'key', descending: false };

async function labels(question: Partial<Parameters<typeof select>[1]>): Promise<string> {
  const { rows: found } = await select(rows, { ...everything, ...question });
  return found.map(({ key }) => key[0]).join('');
}

test('words are found in whatever case, and all of them must be there', async () => {
  expect(await labels({ search: 'WAN' })).toBe('ab');
  expect(await labels({ search: '  wan   bfloat ' })).toBe('a');
  expect(await labels({ search: 'validation' })).toBe('c');
  expect(await labels({ search: 'd000' })).toBe('d');
  expect(await labels({ search: 'wan other' })).toBe('');
});

test('states are alternatives', async () => {
  expect(await labels({ states: ['quarantined'] })).toBe('c');
  expect(await labels({ states: ['ready', 'quarantined'] })).toBe('abcd');
});

test.each([
  ['bytes', false, 'bdca'],
  ['bytes', true, 'acbd'],
  ['model', false, 'abdc'],
  ['model', true, 'dbac'],
  ['tensorParallel', false, 'badc'],
  ['key', true, 'dcba'],
] as const)(
  'by %s, descending %s: equal rows keep their order, what is unknown is last',
  async (sort, descending, order) => {
    expect(await labels({ sort, descending })).toBe(order);
  },
);

test('sums are over what matches', async () => {
  expect((await select(rows, { ...everything, search: 'wan' })).totalBytes).toBe(40);
});

test('the same question about the same look sorts once', async () => {
  const queries = new InventoryQueries();
  let made = 0;
  const ask = async (state: string, offset: number): Promise<unknown> =>
    await queries.matching(state, async () => ((made += 1), rows), {
      ...everything,
      states: [],
      root: '/',
      offset,
      limit: 1,
    });
  expect(await ask('1', 0)).toBe(await ask('1', 3));
  expect(made).toBe(1);
  await ask('2', 0);
  expect(made).toBe(2);
});
