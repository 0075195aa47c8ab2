/** Cleaners, builders and lease holders in each other's way, killed at random: 40 rounds, in seconds. */
import { test } from 'vitest';
import { runCleanupInterleavings } from '../../fixtures/cleanup-interleavings.ts';

test('40 rounds: what is leased stays, and nothing goes that was not in a plan', async () => {
  await runCleanupInterleavings('40 rounds of cleaning', { rounds: 40 });
});
