import { constants } from 'node:fs';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

import { native } from '../../../native/index.ts';
import { opened, temporaryFolder } from './support.ts';

const busy = fileURLToPath(new URL('./busy-worker.ts', import.meta.url));

test('a worker may be ended while its calls are under way', async () => {
  const folder = temporaryFolder();
  native.ftruncate(opened(folder.at('source'), constants.O_RDWR | constants.O_CREAT, 0o600), 16 << 20);
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(busy, { argv: [folder.path, 'stay'] });
    await once(worker, 'message');
    await worker.terminate();
  }
});

test('a process may exit while its calls are under way', () => {
  const folder = temporaryFolder();
  native.ftruncate(opened(folder.at('source'), constants.O_RDWR | constants.O_CREAT, 0o600), 16 << 20);
  const run = spawnSync(process.execPath, [busy, folder.path, 'exit'], { encoding: 'utf8' });
  expect([run.status, run.signal, run.stderr]).toEqual([7, null, '']);
});
