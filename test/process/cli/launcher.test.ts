/** The launcher under the Node that the system has: hands over, explains, keeps signals and exit codes. */
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { launcher, Place, project, systemNode, until } from './weightroom.ts';

const old = systemNode();

describe.skipIf(old === undefined)(
  `under the system's Node (${old ?? 'none that is old enough here'})`,
  () => {
    const node = old as string;

    it('every command works, with its exit code', async () => {
      const place = new Place({ node });
      const root = await place.store();
      const key = await place.built(root, place.checkpoint());
      expect((await place.json('verify', root, '--full')).document.valid).toBe(1);
      expect((await place.run('ls', root, '-q')).stdout).toBe(`${key}\n`);
      expect((await place.run('ls')).code).toBe(2);
      expect((await place.run('show', root, 'f'.repeat(64))).code).toBe(3);
      expect((await place.run('ls', place.at('gone'))).code).toBe(4);
    });

    it('as `npx weightroom` in the checkout, without a network', async () => {
      const place = new Place();
      const npx = join(dirname(node), 'npx');
      if (!existsSync(npx)) return;
      const env = { PATH: `${dirname(node)}:/usr/bin:/bin`, npm_config_offline: 'true' };
      const words = ['weightroom', 'ls', place.at('gone'), '--json'];
      const { code, stdout } = await place.start(words, { node, launcher: npx, cwd: project, env }).ended;
      expect(code).toBe(4);
      expect(JSON.parse(stdout)).toMatchObject({ failure: { code: 'domain_unavailable' } });
    });

    it('standard input reaches the program', async () => {
      const place = new Place({ node });
      const root = await place.store();
      const { code, stderr } = await place.start(['resolve', root, '-', '--mode', 'required'], {
        input: '{}',
      }).ended;
      expect(code).toBe(2);
      expect(stderr).toContain('lacks schema_version');
    });

    it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
      '%s reaches the program, and its exit code comes back',
      async (signal) => {
        const place = new Place({ node });
        const root = await place.store();
        const waiting = await waitingBuild(place, root);
        waiting.child.kill(signal);
        const { code, stderr } = await waiting.ended;
        expect(code).toBe(130);
        expect(stderr).toContain('Nothing of it is left behind');
      },
    );

    it('when the launcher is killed, the program and its build end by themselves', async () => {
      const place = new Place({ node });
      const root = await place.store();
      const waiting = await waitingBuild(place, root);
      const family = descendants(waiting.child.pid as number);
      expect(family).toHaveLength(2);
      waiting.child.kill('SIGKILL');
      await until('all of them are gone', () => family.every((pid) => !existsSync(`/proc/${pid}`)));
    });

    it('says what is needed where the pinned Node is not installed', async () => {
      const place = new Place({ node });
      const copy = copyLauncher(place, 'project');
      const { code, stderr, stdout } = await place.start(['ls'], { launcher: copy }).ended;
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain('weightroom needs Node 22.18');
      expect(stderr).toContain('run `npm ci`');
    });

    it('finds the pinned Node where npm hoisted it, and passes words and exit code', async () => {
      const place = new Place({ node });
      const copy = copyLauncher(place, 'other/node_modules/weightroom');
      const pinned = place.at('other/node_modules', `node-linux-${process.arch}`, 'bin', 'node');
      mkdirSync(dirname(pinned), { recursive: true });
      writeFileSync(pinned, '#!/bin/sh\nshift\nprintf "<%s>" "$@"\nexit 7\n');
      chmodSync(pinned, 0o755);
      const { code, stdout } = await place.start(['a b', '--json', ''], { launcher: copy }).ended;
      expect({ code, stdout }).toEqual({ code: 7, stdout: '<a b><--json><>' });
    });

    it('passes on that the program was killed', async () => {
      const place = new Place({ node });
      const copy = copyLauncher(place, 'project');
      const pinned = place.at('project/node_modules', `node-linux-${process.arch}`, 'bin', 'node');
      mkdirSync(dirname(pinned), { recursive: true });
      writeFileSync(pinned, '#!/bin/sh\nkill -KILL $$\n');
      chmodSync(pinned, 0o755);
      expect((await place.start([], { launcher: copy }).ended).signal).toBe('SIGKILL');
    });
  },
);

describe('under a new Node', () => {
  it('runs in its own process, and keeps compiled code where only its user writes', async () => {
    const place = new Place({ env: { NODE_COMPILE_CACHE: '' } });
    const root = await place.store();
    const waiting = await waitingBuild(place, root);
    expect(descendants(waiting.child.pid as number)).toHaveLength(1);
    waiting.child.kill('SIGINT');
    await waiting.ended;
    expect(existsSync(place.at('cache/weightroom/compiled'))).toBe(true);
  });

  it('says that type stripping is switched off', async () => {
    const place = new Place({ env: { NODE_OPTIONS: '--no-experimental-strip-types' } });
    const { code, stderr } = await place.run('--version');
    expect(code).toBe(2);
    expect(stderr).toContain('switched off');
  });

  it('says how to build the addon where it is missing', async () => {
    const place = new Place();
    for (const name of ['package.json', 'src', 'native/index.ts', 'native/load.ts']) {
      cpSync(join(project, name), place.at('copy', name), { recursive: true });
    }
    const copy = place.at('copy/src/cli/weightroom.mjs');
    const { code, stderr } = await place.start(['ls', place.path], { launcher: copy }).ended;
    expect(code).toBe(3);
    expect(stderr).toContain('npm run postinstall');
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('a reader that stops reading is no error', async () => {
    const place = new Place();
    const root = await place.store();
    const { child, ended } = place.start(['ls', root]);
    child.stdout?.destroy();
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});

function copyLauncher(place: Place, folder: string): string {
  const copy = place.at(folder, 'src', 'cli', 'weightroom.mjs');
  cpSync(launcher, copy);
  return copy;
}

/** A build that reads a checkpoint of 8 GiB, which is a hole: it is under way for a while. */
async function waitingBuild(place: Place, root: string): Promise<ReturnType<Place['start']>> {
  const { CheckpointFolder } = await import('../../fixtures/checkpoint.ts');
  const checkpoint = new CheckpointFolder(place.at('large')).sparse(
    'model.safetensors',
    'w',
    'F32',
    2 ** 31,
  ).path;
  const running = place.start(['build', checkpoint, '--domain', root]);
  await until('the build process runs', () =>
    descendants(running.child.pid as number).some((pid) => commandLine(pid).includes('build-process.ts')),
  );
  return running;
}

function descendants(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    const pids = children === '' ? [] : children.split(' ').map(Number);
    return pids.flatMap((child) => [child, ...descendants(child)]);
  } catch {
    return [];
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
