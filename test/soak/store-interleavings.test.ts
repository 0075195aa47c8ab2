/** The long form of test/process/store/interleavings.test.ts. */
import { test } from 'vitest';
import { runInterleavings } from '../fixtures/store-interleavings.ts';

test('5000 random interleavings leave a store that is whole', async () => {
  await runInterleavings('5000 interleavings', 5000);
});
