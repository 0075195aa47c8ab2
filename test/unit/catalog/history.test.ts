import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { History, mostGapMs } from '../../../src/catalog/history.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

async function historyAt(path: string): Promise<History> {
  const history = await History.open(path, { busyMs: 100 });
  onTestFinished(() => history.close());
  return history;
}

const newHistory = (): Promise<History> => historyAt(join(temporaryFolder(), 'history.sqlite'));
const lease = { key: 'k', pid: 7, command: 'worker' };

test('since when leases are watched, and when one was last seen', async () => {
  const history = await newHistory();
  expect(history.watchedSinceMs('d')).toBeNull();
  history.sawLeases('d', [], 1000);
  history.sawLeases('d', [lease], 2000);
  history.sawLeases('d', [], 3000);
  expect(history.watchedSinceMs('d')).toBe(1000);
  expect(history.lastLeasedMs('d', 'k')).toBe(2000);
  expect(history.lastLeasedMs('d', 'other')).toBeNull();
  expect(history.watchedSinceMs('another')).toBeNull();
});

test('watching that stopped for too long begins anew; a lease that was seen stays seen', async () => {
  const history = await newHistory();
  history.sawLeases('d', [lease], 1000);
  history.sawLeases('d', [], 1000 + mostGapMs);
  expect(history.watchedSinceMs('d')).toBe(1000);
  history.sawLeases('d', [], 1001 + 2 * mostGapMs);
  expect(history.watchedSinceMs('d')).toBe(1001 + 2 * mostGapMs);
  expect(history.lastLeasedMs('d', 'k')).toBe(1000);
});

test('two watchers of one store, and a clock that goes back', async () => {
  const path = join(temporaryFolder(), 'history.sqlite');
  const [a, b] = [await historyAt(path), await historyAt(path)];
  a.sawLeases('d', [lease], 5000);
  b.sawLeases('d', [lease], 4000);
  expect(a.watchedSinceMs('d')).toBe(5000);
  expect(b.lastLeasedMs('d', 'k')).toBe(5000);
});

test('builds, registrations and cleanups come back as they were', async () => {
  const history = await newHistory();
  const build = {
    id: 'b',
    root: '/s',
    key: null,
    status: 'failed',
    startedMs: 1,
    endedMs: 2,
    document: { a: [1] },
  };
  history.buildEnded(build);
  expect(history.builds(5)).toEqual([build]);
  const session = {
    id: 's',
    domainUuid: 'd',
    key: 'k',
    device: '0',
    startedMs: 1,
    endedMs: null,
    document: {},
  };
  history.registration(session);
  history.registrationEvent('s', 3, { step: 1 });
  history.registrationEvent('s', 2, { step: 0 });
  history.registration({ ...session, endedMs: 9 });
  expect(history.registrationEvents('s')).toEqual([
    { atMs: 2, document: { step: 0 } },
    { atMs: 3, document: { step: 1 } },
  ]);
  expect(() => history.registrationEvent('unknown', 1, {})).toThrow('FOREIGN KEY');
  const cleanup = { id: 'c', domainUuid: 'd', atMs: 4, plannedBytes: 10, freedBytes: 8, document: {} };
  history.cleanedUp(cleanup);
  expect(history.cleanups('d', 5)).toEqual([cleanup]);
});

test('without a file nothing counts as watched', async () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  const history = await historyAt(join(file, 'history.sqlite'));
  history.sawLeases('d', [lease], 1000);
  expect(history.problem).toContain('is not used');
  expect(history.watchedSinceMs('d')).toBeNull();
});
