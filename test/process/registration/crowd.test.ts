/** The short form of the soak: a crowd of registrars, by a seed that is told. */
import { expect, test } from 'vitest';
import { registerInCrowds } from './many.ts';

test('16 registrars on 8 GPUs, some of which hang, fail or are killed, leave nothing behind', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 32));
  console.log(`seed ${seed}`);
  const ends = await registerInCrowds({ seed, registrars: 16, untilMs: 0 });
  console.log(JSON.stringify(ends));
  expect(Object.values(ends).reduce((total, count) => total + count, 0)).toBe(16);
});
