/** Rates over a sliding window, on a clock of the test's own. */
import { expect, test } from 'vitest';
import { TransferRate } from '../../../src/production/transfer-rate.ts';

test('says nothing until half a second has passed', () => {
  const rate = new TransferRate();
  expect(rate.bytesPerSecond).toBeNull();
  rate.add(1000, 0);
  rate.add(1400, 100);
  expect([rate.bytesPerSecond, rate.secondsLeft(200)]).toEqual([null, null]);
  rate.add(1500, 100);
  expect([rate.bytesPerSecond, rate.secondsLeft(200)]).toEqual([200, 0.5]);
});

test('forgets what is older than its window, so that a stall shows', () => {
  const rate = new TransferRate();
  for (let second = 0; second <= 10; second += 1) rate.add(second * 1000, second * 100);
  expect(rate.bytesPerSecond).toBe(100);
  for (let second = 11; second <= 16; second += 1) rate.add(second * 1000, 1000);
  expect(rate.bytesPerSecond).toBe(0);
  expect(rate.secondsLeft(2000)).toBeNull();
  expect(rate.secondsLeft(1000)).toBe(0);
});

test('a new phase starts anew', () => {
  const rate = new TransferRate();
  rate.add(0, 0);
  rate.add(1000, 500);
  rate.reset();
  rate.add(2000, 0);
  expect(rate.bytesPerSecond).toBeNull();
});
