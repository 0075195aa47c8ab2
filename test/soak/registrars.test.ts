/** 64 registrars at once on 8 GPUs for two minutes, under random hangs, failures and kills. */
import { expect, test } from 'vitest';
import { registerInCrowds } from '../process/registration/many.ts';

test('no process, no lease and no descriptor is left after two minutes of crowds', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 32));
  console.log(`seed ${seed}`);
  const ends = await registerInCrowds({ seed, registrars: 64, untilMs: Date.now() + 120_000 });
  console.log(JSON.stringify(ends));
  expect(ends['registered']).toBeGreaterThan(0);
});
