/** The long form of test/process/cleanup/interleavings.test.ts. */
import { test } from 'vitest';
import { runCleanupInterleavings } from '../fixtures/cleanup-interleavings.ts';

test('three minutes: what is leased stays, and nothing goes that was not in a plan', async () => {
  await runCleanupInterleavings('three minutes of cleaning', { rounds: 100_000, forMs: 180_000 });
});
