/** Removing a tree never reaches what is mounted into it, on the same file system or another one. */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { native } from '../../../native/index.ts';

test.each(['bind', 'tmpfs'])('a %s mount below the tree is refused and keeps its files', async (kind) => {
  const base = mkdtempSync(join(tmpdir(), 'weightroom-mount-'));
  const inside = join(base, 'tree', 'mounted');
  const elsewhere = join(base, 'elsewhere');
  mkdirSync(inside, { recursive: true });
  mkdirSync(elsewhere);
  const mount = spawnSync(
    'mount',
    kind === 'bind' ? ['--bind', elsewhere, inside] : ['-t', 'tmpfs', 'none', inside],
  );
  try {
    if (mount.status !== 0) {
      console.log(`not shown here: this user may not mount (${mount.stderr.toString().trim()})`);
      return;
    }
    writeFileSync(join(inside, 'canary'), 'alive');
    const directory = openSync(base, 'r');
    await expect(native.removeTree(directory, 'tree')).rejects.toMatchObject({ code: 'EXDEV' });
    expect(readFileSync(join(inside, 'canary'), 'utf8')).toBe('alive');
    execFileSync('umount', [inside]);
    await native.removeTree(directory, 'tree');
    closeSync(directory);
  } finally {
    if (mount.status === 0) spawnSync('umount', [inside]);
    rmSync(base, { recursive: true, force: true });
  }
});
