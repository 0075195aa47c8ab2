import { defineConfig } from 'vitest/config';

/**
 * Four suites. `unit` needs nothing but Node; `process` starts real processes and sends real signals;
 * `interop` needs the Python environment that its set-up makes; `soak` is the long form of the randomised tests.
 */
const suite = (name: string, timeoutMs: number, extra: Record<string, unknown> = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    environment: 'node',
    pool: 'forks' as const,
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    ...extra,
  },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      suite('unit', 30_000),
      suite('process', 300_000),
      suite('interop', 300_000, { globalSetup: ['test/interop/setup.ts'] }),
      suite('soak', 3_600_000),
    ],
  },
});
