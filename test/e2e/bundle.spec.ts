/** What a browser has to fetch before it shows anything. */
import { expect, test } from '@playwright/test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { rendererFolder } from './fake/host.ts';

const mostBytes = 400 * 1024;

test('the built pages stay small, gzipped', () => {
  const sizes = readdirSync(rendererFolder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(html|js|css|svg|woff2?)$/.test(name))
    .map((name) => gzipSync(readFileSync(join(rendererFolder, name))).length);
  expect(sizes.length).toBeGreaterThan(2);
  expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(mostBytes);
});
