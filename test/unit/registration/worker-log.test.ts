/** Lines of vLLM-Omni workers, several in one log, with whatever stands before them. */
import { expect, test } from 'vitest';
import { WorkerLog } from '../../../src/registration/worker-log.ts';

test('eight interleaved workers are told apart', () => {
  const log = new WorkerLog();
  for (let region = 1; region <= 3; region += 1) {
    for (let worker = 0; worker < 8; worker += 1) {
      const prefix = `(Worker pid=${1000 + worker}) INFO 12-07 10:00:0${region} [host.py:12]`;
      log.read(`${prefix} Registering HWR host range ${region}/13: 4096 bytes`, 5);
      if (region < 3 || worker !== 2)
        log.read(`${prefix} Registered HWR host range ${region}/13 in 0.5 s`, 6);
    }
  }
  expect(log.workers).toHaveLength(8);
  const stuck = log.workers.filter(({ lastEntered }) => lastEntered?.done === false);
  expect(stuck).toMatchObject([
    { pid: 1002, lastEntered: { region: 3, regions: 13, bytes: 4096 }, readAtMs: 5 },
  ]);
});

test('a log of an older version tells its end', () => {
  const log = new WorkerLog();
  log.read('INFO [rank3]: Registered 12.5 GiB of HWR mmap in 4 range(s) for direct H2D in 3.1 s', null);
  expect(log.workers).toMatchObject([
    { worker: 'rank3', state: 'registered', regions: 4, lastEntered: null },
  ]);
});

test('other lines tell nothing', () => {
  const log = new WorkerLog();
  expect(log.read('INFO something about HWR', null)).toBe(false);
  expect(log.workers).toEqual([]);
});
