/** Builds in real child processes: what they tell, and how they end when somebody ends them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  startBuild,
  supervise,
  type BuildEvent,
  type RunningBuild,
} from '../../../src/production/build-supervisor.ts';
import type { BuildPhase, BuildResult, ChildEvent } from '../../../src/production/build-protocol.ts';
import { spawnChild } from '../../../src/store/child-process.ts';
import { cleanup } from '../../../src/store/cleanup.ts';
import { openDomain } from '../../../src/store/domain.ts';
import { FileLock, withoutWaiting } from '../../../src/store/lock.ts';
import { everyDtype } from '../../fixtures/checkpoint.ts';
import { BuildScene, isRunning, largeBytes, until } from './domain-fixture.ts';

let scene: BuildScene;
beforeEach(async () => {
  scene = await BuildScene.make();
});
afterEach(async () => await scene.remove());

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const entry = fileURLToPath(new URL('../../../src/production/build-process.ts', import.meta.url));

/** Runs `act` once, at the first sign that the phase is under way: bytes moved, where it counts them. */
function inPhase(phase: BuildPhase, act: (build: RunningBuild) => void): RunningBuild {
  let acted = false;
  const build = startBuild(scene.request(), {
    onEvent: (event) => {
      if (acted || event.type !== 'progress' || event.phase !== phase || event.bytes === 0) return;
      acted = true;
      act(build);
    },
  });
  return build;
}

describe('a build', () => {
  test('tells its phases in order, its progress to the last byte, and one result', async () => {
    scene.large();
    const events: BuildEvent[] = [];
    let peakKib = 0;
    const build = startBuild(scene.request({ validation: 'full_checksum' }), {
      onEvent: (event) => {
        events.push(event);
        peakKib = Math.max(peakKib, build.pid === undefined ? 0 : peakOf(build.pid));
      },
    });
    const result = await build.result;
    expect(result).toMatchObject({ status: 'built', failure: null });
    expect(result.key).toMatch(/^[0-9a-f]{64}$/);
    expect(result.artifactBytes).toBeGreaterThan(largeBytes);
    expect(
      events.filter(({ type }) => type === 'phase').map((event) => 'phase' in event && event.phase),
    ).toEqual([
      'inspecting',
      'fingerprinting',
      'looking-up',
      'waiting-for-build-lock',
      'preparing',
      'producing',
      'hashing',
      'syncing',
      'publishing',
    ]);
    for (const phase of ['fingerprinting', 'producing']) {
      const bytes = events.flatMap((event) =>
        event.type === 'progress' && event.phase === phase ? [event.bytes] : [],
      );
      expect(bytes.length).toBeGreaterThan(2);
      expect(bytes).toEqual(bytes.toSorted((a, b) => a - b));
      const last = events.findLast((event) => event.type === 'progress' && event.phase === phase);
      expect(last).toMatchObject({
        bytes: last?.type === 'progress' ? last.totalBytes : -1,
        secondsLeft: expect.anything() as number,
      });
    }
    expect(peakKib).toBeGreaterThan(0);
    expect(peakKib).toBeLessThan(300 * 1024);
    expect(scene.staged()).toEqual([]);
    expect(isRunning(build.pid as number)).toBe(false);
  });

  test('of what is there is a hit; a checkpoint with problems is a failure with all of them', async () => {
    scene.checkpoint.weights('model.safetensors', everyDtype());
    expect((await startBuild(scene.request()).result).status).toBe('built');
    expect((await startBuild(scene.request()).result).status).toBe('hit');
    scene.checkpoint.index({ x: 'gone.safetensors', y: 'gone-too.safetensors' });
    expect(await startBuild(scene.request()).result).toMatchObject({
      status: 'failed',
      failure: { code: 'canonical_source_failed', details: { problem_count: 2 } },
    });
  });

  test('two of one key at once: one builds, the other joins', async () => {
    scene.checkpoint.weights('model.safetensors', everyDtype());
    const key = (await startBuild(scene.request()).result).key as string;
    const domain = await openDomain(scene.root);
    if (!domain.ok) throw new Error(domain.failure.message);
    await cleanup(domain.value, key);
    // Both have looked and found nothing before either can build.
    const gate = await FileLock.exclusive(join(scene.root, 'locks', `${key}.build.lock`), withoutWaiting);
    let waiting = 0;
    const both = [1, 2].map(() =>
      startBuild(scene.request(), {
        onEvent: (event) => {
          if (event.type === 'phase' && event.phase === 'waiting-for-build-lock') waiting += 1;
        },
      }),
    );
    await until(() => waiting === 2);
    gate.release();
    const results = await Promise.all(both.map(({ result }) => result));
    expect(results.map(({ status }) => status).sort()).toEqual(['built', 'joined']);
  });

  test('that waits for a lock in vain times out', async () => {
    scene.checkpoint.weights('model.safetensors', everyDtype());
    const { key } = await startBuild(scene.request()).result;
    const path = scene.locks().find((name) => name.endsWith(`${key}.artifact.lock`)) as string;
    const lock = await FileLock.exclusive(path, withoutWaiting);
    expect(await startBuild(scene.request({ timeoutMs: 1 })).result).toMatchObject({
      status: 'timeout',
      key,
      failure: { code: 'active_build_timeout', retryable: true },
    });
    lock.release();
  });
});

describe('descriptors', () => {
  test('a child has its pipes, and besides only what it opened itself', async () => {
    scene.large();
    const secret = openSync(join(scene.base, 'secret'), 'w');
    const lock = await FileLock.exclusive(join(scene.base, 'other.lock'), withoutWaiting);
    let targets: string[] = [];
    const build = inPhase('producing', ({ pid, cancel }) => {
      targets = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => descriptorTarget(pid as number, fd));
      cancel();
    });
    await build.result;
    closeSync(secret);
    lock.release();
    expect(targets.length).toBeGreaterThan(3);
    const root = realpathSync(scene.base);
    const own = targets.filter((target) => target.startsWith('/'));
    for (const target of own.filter((path) => path !== '/dev/null')) {
      const expected =
        target.startsWith(`${root}/store/`) ||
        target.startsWith(`${root}/tiny/`) ||
        target === `${root}/store`;
      expect(expected, target).toBe(true);
    }
    for (const target of targets.filter((other) => !other.startsWith('/'))) {
      expect(target).toMatch(/^(socket|pipe|anon_inode):/);
    }
  });
});

function descriptorTarget(pid: number, fd: string): string[] {
  try {
    return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
  } catch {
    return [];
  }
}

/** The largest resident size so far, in KiB; 0 where the process is gone. */
function peakOf(pid: number): number {
  try {
    return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

describe('cancelling in the middle', () => {
  test.each(['fingerprinting', 'producing'] as const)('of %s cleans up and goes', async (phase) => {
    scene.large();
    const build = inPhase(phase, ({ cancel }) => cancel());
    expect(await build.result).toMatchObject({ status: 'cancelled', failure: null, artifactBytes: null });
    expect(isRunning(build.pid as number)).toBe(false);
    expect(scene.staged()).toEqual([]);
  });

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)('%s is a cancel too', async (signal) => {
    scene.large();
    const build = inPhase('producing', ({ pid }) => process.kill(pid as number, signal));
    expect((await build.result).status).toBe('cancelled');
    expect(scene.staged()).toEqual([]);
  });

  test('when it is over changes nothing', async () => {
    scene.checkpoint.weights('model.safetensors', everyDtype());
    const build = startBuild(scene.request());
    expect((await build.result).status).toBe('built');
    build.cancel();
    expect((await build.result).status).toBe('built');
  });

  test('a stdout that nobody reads any more is a cancel, with exit code 130', async () => {
    scene.large();
    const child = spawnChild(entry);
    child.stdin.write(`${JSON.stringify(scene.request())}\n`);
    const lines = createInterface({ input: child.stdout });
    for await (const line of lines) if (line.includes('"producing"')) break;
    child.stdout.destroy();
    expect(await once(child, 'exit')).toEqual([130, null]);
    expect(scene.staged()).toEqual([]);
  });
});

describe('a violent end', () => {
  test('SIGKILL leaves one staging entry and no lock; the next build clears it and succeeds', async () => {
    scene.large();
    const build = inPhase('producing', ({ pid }) => process.kill(pid as number, 'SIGKILL'));
    const result = await build.result;
    expect(result).toMatchObject({
      status: 'failed',
      failure: {
        stage: 'production',
        code: 'producer_failed',
        retryable: true,
        details: { signal: 'SIGKILL' },
      },
    });
    expect(result.failure?.message).toContain('out of memory');
    expect(scene.staged()).toHaveLength(1);
    for (const path of scene.locks()) (await FileLock.exclusive(path, withoutWaiting)).release();
    expect((await startBuild(scene.request()).result).status).toBe('built');
    expect(scene.staged()).toEqual([]);
  });

  test('the death of its parent makes the child clean up and go', async () => {
    scene.large();
    const parent = spawn(process.execPath, [here('./parent.ts'), JSON.stringify(scene.request())], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let pid = 0;
    for await (const line of createInterface({ input: parent.stdout })) {
      const event = JSON.parse(line) as BuildEvent & { pid: number };
      if (event.type !== 'progress' || event.phase !== 'producing' || event.bytes === 0) continue;
      pid = event.pid;
      break;
    }
    expect(isRunning(pid)).toBe(true);
    parent.kill('SIGKILL');
    await until(() => !isRunning(pid));
    expect(scene.staged()).toEqual([]);
  });
});

describe('requests that are none', () => {
  async function ask(input: string): Promise<{ code: unknown; events: ChildEvent[] }> {
    const child = spawnChild(entry);
    const events: ChildEvent[] = [];
    createInterface({ input: child.stdout }).on('line', (line) =>
      events.push(JSON.parse(line) as ChildEvent),
    );
    child.stdin.on('error', () => undefined);
    child.stdin.write(input);
    const [code] = (await once(child, 'close')) as [unknown];
    return { code, events };
  }

  test.each([
    ['not JSON\n', 'not one line of JSON'],
    ['[]\n', 'must be a JSON object'],
    ['{}\n', '"checkpoint" must be an absolute path'],
    ['{"checkpoint":"relative"}\n', '"checkpoint" must be an absolute path'],
    ['{"checkpoint":"/x","domain":"/y","representation":"int4"}\n', 'one of preserve, bf16'],
    ['{"checkpoint":"/x","domain":"/y","representation":"bf16","timeoutMs":-1}\n', '"timeoutMs"'],
    ['{"checkpoint":"/x","domain":"/y","representation":"bf16","tp":2}\n', '"tp" is not a field'],
  ])('%j', async (input, word) => {
    const { code, events } = await ask(input);
    expect(code).toBe(1);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      type: 'result',
      status: 'failed',
      failure: {
        stage: 'configuration',
        code: 'invalid_config',
        message: expect.stringContaining(word) as string,
      },
    });
  });

  test('a stdin that ends before a request came', async () => {
    const child = spawnChild(entry);
    child.stdin.end('{"checkpoint"');
    expect(await once(child, 'exit')).toEqual([130, null]);
  });
});

describe('the supervisor', () => {
  const odd = (how: string): ReturnType<typeof spawnChild> => spawnChild(here('./odd-child.ts'), [how]);

  test('a child that dies without a result is a failure with its exit code and last words', async () => {
    const result: BuildResult = await supervise(odd('dies'), scene.request()).result;
    expect(result).toMatchObject({ status: 'failed', failure: { code: 'producer_failed', retryable: true } });
    expect(result.failure?.message).toContain('exit code 3');
    expect(result.failure?.message).toContain('out of luck');
    expect(result.failure?.message).toContain('a library prints to stdout');
  });

  test('a process that cannot be started is a failure like any other', async () => {
    const missing = spawn(join(scene.base, 'no-such-program'), { stdio: ['pipe', 'pipe', 'pipe'] });
    const build = supervise(missing, scene.request());
    build.cancel();
    const { status, failure } = await build.result;
    expect([status, failure?.code, failure?.retryable]).toEqual(['failed', 'producer_failed', true]);
    expect(failure?.message).toContain('could not be started');
  });

  test('a child that will not go is killed, and the reader hears what that leaves', async () => {
    const warnings: string[] = [];
    const build: RunningBuild = supervise(odd('stays'), scene.request(), {
      terminateAfterMs: 50,
      killAfterMs: 50,
      onEvent: (event) => {
        if (event.type === 'warning') warnings.push(event.message);
        else build.cancel();
      },
    });
    expect((await build.result).status).toBe('cancelled');
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('was killed');
    expect(isRunning(build.pid as number)).toBe(false);
  });

  test('a child gets a short environment and no options of this process', async () => {
    process.env['WEIGHTROOM_TEST_PASSES'] = '1';
    const options = process.env['NODE_OPTIONS'];
    process.env['NODE_OPTIONS'] = '--no-warnings';
    const child = spawnChild(here('./odd-child.ts'), ['stays']);
    await once(child.stdout, 'data');
    const names = readFileSync(`/proc/${child.pid}/environ`, 'latin1')
      .split('\0')
      .map((pair) => pair.split('=')[0]);
    const cwd = readlinkSync(`/proc/${child.pid}/cwd`);
    child.kill('SIGKILL');
    await once(child, 'close');
    delete process.env['WEIGHTROOM_TEST_PASSES'];
    if (options === undefined) delete process.env['NODE_OPTIONS'];
    else process.env['NODE_OPTIONS'] = options;
    expect(names).toContain('WEIGHTROOM_TEST_PASSES');
    expect(names).toContain('PATH');
    expect(names).not.toContain('NODE_OPTIONS');
    expect(names).not.toContain('ELECTRON_RUN_AS_NODE');
    expect(cwd).toBe('/');
  });
});
