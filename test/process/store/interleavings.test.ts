/** Builders, cleaners and readers in each other's way, killed at random: 200 times, in seconds. */
import { test } from 'vitest';
import { runInterleavings } from '../../fixtures/store-interleavings.ts';

test('200 random interleavings leave a store that is whole', async () => {
  await runInterleavings('200 interleavings', 200);
});
