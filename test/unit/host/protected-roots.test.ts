/** Case S10: no store where an update, an uninstaller or a tidy-up would take it along; none over something else. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { FailureError } from '../../../src/contract/failure.ts';
import { installationFolder, whyProtected } from '../../../src/host/protected-roots.ts';
import { createStore } from '../../../src/host/stores.ts';
import { detectFilesystem } from '../../../src/store/domain.ts';

const folder = mkdtempSync(join(tmpdir(), 'weightroom-roots-'));
afterAll(() => rmSync(folder, { recursive: true }));

const home = join(folder, 'home');
const application = join(folder, 'application');
for (const path of [home, application, join(folder, 'empty')]) mkdirSync(path);
symlinkSync(application, join(folder, 'link'));

function refusal(root: string): string | null {
  return whyProtected(root, { home, ownFolders: [join(folder, 'link')] })?.message ?? null;
}

it('refuses the root of the file system and the home directory itself', () => {
  expect(refusal('/')).toContain('root of the file system');
  expect(refusal(home)).toContain('is your home directory');
  expect(refusal(join(home, 'store'))).toBeNull();
});

it("refuses the program's own folder and all below it, whatever link it is known by", () => {
  expect(refusal(application)).toContain("the program's own folder");
  expect(refusal(join(application, 'deep', 'store'))).toContain('would take the store with it');
  expect(refusal(`${application}-2`)).toBeNull();
});

it('refuses a folder inside another store, however deep', () => {
  const outer = join(folder, 'outer');
  mkdirSync(join(outer, 'artifacts'), { recursive: true });
  writeFileSync(join(outer, 'domain.json'), '{}');
  expect(refusal(join(outer, 'artifacts'))).toContain(`lies in the store ${outer}`);
  expect(refusal(join(outer, 'new', 'deep'))).toContain(`lies in the store ${outer}`);
  expect(refusal(outer)).toBeNull();
});

it('refuses a folder that holds something else, and names it', () => {
  const used = join(folder, 'used');
  mkdirSync(used);
  for (const name of ['a', 'b', 'c', 'd']) writeFileSync(join(used, name), '');
  expect(refusal(used)).toBe(
    `${used} is not empty and is not a store (it holds a, b, c, ...). Choose a new or an empty folder.`,
  );
});

it('takes an empty folder, one that is not there, a new disk, and a creation that was interrupted', () => {
  expect(refusal(join(folder, 'empty'))).toBeNull();
  expect(refusal(join(folder, 'new'))).toBeNull();
  const begun = join(folder, 'begun');
  for (const name of ['locks', 'tmp', 'lost+found']) mkdirSync(join(begun, name), { recursive: true });
  writeFileSync(join(begun, '.domain.json.12.00ff.tmp'), '');
  expect(refusal(begun)).toBeNull();
});

it('is asked before anything is made', async () => {
  const outcome = await createStore({ root: join(installationFolder, 'store') }, { HOME: home });
  expect(outcome).toMatchObject({ ok: false, failure: { code: 'invalid_config', retryable: false } });
});

it('a network file system is refused in words', () => {
  const mountinfo = join(folder, 'mountinfo');
  writeFileSync(
    mountinfo,
    [
      '1 0 8:1 / / rw - ext4 /dev/sda1 rw',
      '2 1 0:50 / /mnt/share rw - nfs4 server:/x rw',
      '3 1 0:51 / /mnt/odd rw - plan10fs x rw',
      '',
    ].join('\n'),
  );
  expect(detectFilesystem('/srv/store', mountinfo)).toEqual({ type: 'ext4', storageClass: 'disk' });
  expect(message(() => detectFilesystem('/mnt/share/store', mountinfo))).toMatch(
    /lies on nfs4, a network or remote file system: .* Choose a folder on a local disk\./,
  );
  expect(message(() => detectFilesystem('/mnt/odd/store', mountinfo))).toMatch(
    /lies on plan10fs, which is not known to be/,
  );
});

function message(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof FailureError) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}
