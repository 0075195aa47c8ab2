/** Logs of workers that somebody else started, through the command line. */
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RegistrationScene } from './scene.ts';

const line = (worker: number, text: string): string =>
  `(Worker pid=${worker}) INFO 12-07 10:00:01 [host.py:12] ${text}\n`;
const entered = (region: number): string => `Registering HWR host range ${region}/13: 4096 bytes`;

type Workers = readonly Record<string, unknown>[];

test('a log is followed while it grows and through its rotation', async () => {
  const scene = await RegistrationScene.make();
  const path = join(scene.folder, 'vllm.log');
  writeFileSync(path, line(4194301, entered(1)));
  const following = scene.start('diagnose', '--log', path, '--follow');
  const untilRegion = async (worker: number, region: number): Promise<void> => {
    await following.until(
      ({ workers }) =>
        (workers as Workers | undefined)?.some(
          ({ pid, last_entered: last }) =>
            pid === worker && (last as { region: number } | null)?.region === region,
        ) === true,
    );
  };
  await untilRegion(4194301, 1);
  appendFileSync(path, line(4194301, 'Registered HWR host range 1/13 in 0.1 s'));
  appendFileSync(path, line(4194301, entered(2)));
  await untilRegion(4194301, 2);
  renameSync(path, `${path}.1`);
  appendFileSync(`${path}.1`, line(4194302, entered(7)));
  writeFileSync(path, line(4194301, entered(3)));
  await untilRegion(4194301, 3);
  await untilRegion(4194302, 7);
  following.kill('SIGINT');
  const { last } = await following.ended;
  expect(last['workers']).toMatchObject([
    { pid: 4194301, state: 'registering', left: 11, last_entered: { region: 3, done: false } },
    { pid: 4194302, state: 'registering', left: 7, last_entered: { region: 7, done: false } },
  ]);
});

test('one call for 513 GiB that fails with code 2 is told to be too large (R2)', async () => {
  const scene = await RegistrationScene.make();
  const path = join(scene.folder, 'vllm.log');
  const bytes = 513 * 1024 ** 3;
  writeFileSync(
    path,
    line(4194301, `Registering HWR host range 1/1: ${bytes} bytes`) +
      line(
        4194301,
        'HWR registered direct H2D unavailable (cudaHostRegister returned 2 out of memory); using bounded host staging',
      ),
  );
  const { code, last } = await scene.weightroom('diagnose', '--log', path);
  expect(code).toBe(0);
  expect(last['findings']).toEqual([expect.objectContaining({ rule: 'region-too-large' })]);
});
