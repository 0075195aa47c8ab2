/** A store that is moved away under a running build: what takes its place is never written to. */
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identityOf, KiB, startProcess, temporaryFolder } from '../../fixtures/store.ts';
import { directoryNames } from '../../../src/store/paths.ts';

test('a build whose root was replaced by a link publishes nothing, there or here', async () => {
  const base = temporaryFolder();
  const root = join(base, 'store');
  const moved = join(base, 'moved');
  const decoy = join(base, 'decoy');
  const builder = await startProcess();
  await builder.do('create', { root });
  const build = builder.build({ label: 'a', bytes: 64 * KiB, pause: 'midway' });
  await build.inside;

  renameSync(root, moved);
  for (const name of directoryNames) mkdirSync(join(decoy, name), { recursive: true });
  symlinkSync(decoy, root);
  await build.go();
  expect(await build.result).toMatchObject({ status: 'failed' });
  for (const name of directoryNames) expect(readdirSync(join(decoy, name)), name).toEqual([]);
  expect(readdirSync(join(moved, 'artifacts'))).toEqual([]);

  // Put back, the store is whole and the build succeeds; what was staged counts as a dead build's until then.
  rmSync(root);
  renameSync(moved, root);
  const again = await startProcess();
  await again.do('open', { root });
  expect((await again.build({ label: 'a', bytes: 64 * KiB }).result).status).toBe('built');
  expect(readdirSync(join(root, 'artifacts'))).toEqual([identityOf('a').key]);
  expect(readdirSync(join(root, 'tmp'))).toEqual([]);
});
