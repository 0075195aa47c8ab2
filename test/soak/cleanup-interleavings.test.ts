/** The long form of test/process/cleanup/interleavings.test.ts, with a lease holder of the published package. */
import { test } from 'vitest';
import { runCleanupInterleavings } from '../fixtures/cleanup-interleavings.ts';
import { ensurePython } from '../interop/environment.ts';
import { PythonReader } from '../interop/python-reader.ts';
import { PythonSide } from '../interop/python-side.ts';

test('three minutes: what is leased stays, and nothing goes that was not in a plan', async () => {
  const python = await PythonSide.start(await ensurePython());
  try {
    await runCleanupInterleavings('three minutes of cleaning', {
      rounds: 100_000,
      forMs: 180_000,
      outside: new PythonReader(python),
    });
  } finally {
    await python.close();
  }
});
