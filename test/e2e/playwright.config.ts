import { defineConfig } from '@playwright/test';
import { chromiumOptions } from './chromium.ts';

export default defineConfig({
  testDir: '.',
  testMatch: '*.spec.ts',
  outputDir: '../.cache/e2e',
  timeout: 60_000,
  expect: { timeout: 10_000 },
  fullyParallel: false,
  workers: 1,
  // The JSON report is what `.ci/count-tests.mjs` counts.
  reporter: [['list'], ['json', { outputFile: '../.cache/results/e2e.json' }]],
  use: { launchOptions: chromiumOptions, viewport: { width: 1280, height: 800 }, trace: 'retain-on-failure' },
});
