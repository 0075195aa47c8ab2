/** The main job as a user who owns nothing: root would hide permission faults. */
import { chmodSync, chownSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { nobody, Place, readableToNobody } from './weightroom.ts';

describe.runIf(process.getuid?.() === 0)('as uid 65534', () => {
  it('make, build, verify, rebuild, remove', async () => {
    const place = new Place({ ...readableToNobody(new Place()), uid: nobody });
    const root = await place.store('store', '--admission', 'serialized', '--max-store', '1GiB');
    expect(lstatSync(root)).toMatchObject({ uid: nobody });
    expect(lstatSync(root).mode & 0o777).toBe(0o700);
    const checkpoint = place.checkpoint();
    const key = await place.built(root, checkpoint, '--representation', 'bf16');
    expect((await place.json('verify', root, '--full')).document).toMatchObject({ valid: 1, failure: null });
    expect(
      (await place.json('build', checkpoint, '--domain', root, '--representation', 'bf16')).document.status,
    ).toBe('hit');

    // Damaged, denied by nobody's own check, built again over it: this moves a 0555 directory (case S1).
    const artifact = join(root, 'artifacts', key);
    chmodSync(join(artifact, 'READY.json'), 0o644);
    expect((await place.json('verify', root)).code).toBe(3);
    expect(
      (await place.json('build', checkpoint, '--domain', root, '--representation', 'bf16')).document.status,
    ).toBe('built');
    expect(readdirSync(join(root, 'quarantine'))).toHaveLength(1);
    expect((await place.json('quarantine', 'rm', root, '--all')).code).toBe(0);
    expect(readdirSync(join(root, 'quarantine'))).toEqual([]);

    expect((await place.json('remove', root, key)).document).toMatchObject({ removed: true });
    expect(readdirSync(join(root, 'artifacts'))).toEqual([]);
    expect((await place.json('sample', '--size', '300kB')).document.build.status).toBe('built');
  });

  it('what is not theirs is told as no permission, and never as free or absent', async () => {
    const place = new Place({ ...readableToNobody(new Place()), uid: nobody });
    const root = await place.store();
    const key = await place.built(root, place.checkpoint());
    // Case S6: lock files of another user.
    for (const name of [`${key}.build.lock`, `${key}.artifact.lock`]) {
      chownSync(join(root, 'locks', name), 0, 0);
      chmodSync(join(root, 'locks', name), 0o644);
    }
    const removing = await place.run('remove', root, key);
    expect(removing.code).toBeGreaterThanOrEqual(3);
    expect(removing.stderr).toContain('no permission');
    const verifying = await place.run('verify', root);
    expect(verifying.code).toBeGreaterThanOrEqual(3);
    expect(verifying.stdout).toContain('no permission');

    chownSync(root, 0, 0);
    const foreign = await place.run('ls', root);
    expect(foreign.code).toBeGreaterThanOrEqual(3);
    expect(foreign.stderr).not.toContain('there is nothing');
    const { code, stderr } = await place.run('domain', 'create', '/proc/store');
    expect(code).toBeGreaterThanOrEqual(2);
    expect(stderr).toMatch(/proc/);
  });
});
