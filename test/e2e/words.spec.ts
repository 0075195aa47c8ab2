/** The pages' pure parts: sizes and times in words, the treemap's areas, the lanes of the queue. */
import { expect, test } from '@playwright/test';
import { headingOf, linesOf } from '../../renderer/parts/treemap-labels.ts';
import { squarify } from '../../renderer/parts/treemap-layout.ts';
import { pictureOf } from '../../renderer/parts/treemap-tiles.ts';
import { chartOf } from '../../renderer/state/build-lanes.ts';
import { readSize, sizeWords } from '../../renderer/words/bytes.ts';
import { durationWords } from '../../renderer/words/durations.ts';
import { builtBuild, failedBuild } from './fake/builds.ts';
import { rows, treemap } from './fake/stores.ts';
import { gib } from './fake/units.ts';

test('sizes', () => {
  expect([0, 1, 900, 2048, 50 * 1024 ** 2, gib / 10, 1.5 * gib, 2600 * gib].map(sizeWords)).toEqual([
    '0 bytes',
    '1 byte',
    '900 bytes',
    '2.0 KiB',
    '50.0 MiB',
    '0.1 GiB',
    '1.5 GiB',
    '2600.0 GiB',
  ]);
  expect(['192 GiB', '1.5TB', '4096', '7 KB', 'many', '', '-3', '9e9 GiB'].map(readSize)).toEqual([
    192 * gib,
    1.5e12,
    4096,
    7000,
    null,
    null,
    null,
    null,
  ]);
});

test('durations', () => {
  expect([300, 1000, 61_000, 3_600_000, 5_400_000, 3 * 86_400_000].map(durationWords)).toEqual([
    'less than a second',
    '1 second',
    '1 minute 1 second',
    '1 hour',
    '1 hour 30 minutes',
    '3 days',
  ]);
});

test('a treemap fills its box in proportion, and nothing leaves it', () => {
  const sizes = [500, 300, 120, 40, 20, 10, 6, 4];
  const boxes = squarify(sizes, { x: 10, y: 20, width: 400, height: 200 });
  boxes.forEach(({ x, y, width, height }, index) => {
    expect(width * height).toBeCloseTo(((sizes[index] as number) / 1000) * 400 * 200, 3);
    expect(x).toBeGreaterThanOrEqual(10);
    expect(y).toBeGreaterThanOrEqual(20);
    expect(x + width).toBeLessThanOrEqual(410.001);
    expect(y + height).toBeLessThanOrEqual(220.001);
  });
  expect(squarify([], { x: 0, y: 0, width: 1, height: 1 })).toEqual([]);
  const { tiles } = pictureOf(treemap(rows(3000, 0)), 900, 300);
  expect(tiles.every(({ width, height }) => Number.isFinite(width) && Number.isFinite(height))).toBe(true);
  expect(new Set(tiles.map(({ id }) => id)).size).toBe(tiles.length);
});

test('the queue shows what ended lately, on one axis', () => {
  const nowMs = 1_700_000_000_000;
  const { lanes, ticks } = chartOf(
    { builds: [failedBuild('a', nowMs), builtBuild('b', nowMs)], elsewhere: [] },
    nowMs,
  );
  expect(lanes.map(({ outcome }) => outcome)).toEqual(['failed, 1 minute 35 seconds', 'built, 4 minutes']);
  for (const { blocks } of lanes) {
    for (const { from, length } of blocks) expect(from + length).toBeLessThanOrEqual(1.0001);
  }
  expect(ticks.length).toBeGreaterThan(2);
  expect(chartOf({ builds: [failedBuild('a', nowMs)], elsewhere: [] }, nowMs + 3_600_000).lanes).toEqual([]);
});

test('a label in the treemap is whole or not there', () => {
  expect(headingOf(['contiguous TP2 · 12.0 GiB', 'contiguous TP2', 'TP2'], 300, 6.2)).toBe(
    'contiguous TP2 · 12.0 GiB',
  );
  expect(headingOf(['contiguous TP2 · 12.0 GiB', 'contiguous TP2', 'TP2'], 60, 6.2)).toBe('TP2');
  expect(headingOf(['contiguous TP2'], 20, 6.2)).toBe('');
  expect(linesOf('transformer rank 0', 200, 40)).toEqual(['transformer rank 0']);
  expect(linesOf('transformer rank 0', 100, 60)).toEqual(['transformer', 'rank 0']);
  expect(linesOf('transformer rank 0', 100, 40)).toEqual([]);
  expect(linesOf('transformer rank 0', 60, 60)).toEqual([]);
});
