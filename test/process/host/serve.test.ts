/** `weightroom serve` as people start it: found by the second one, and gone without a trace. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { DeskClient } from '../../../src/contract/contract.ts';
import { connectDesk } from '../../fixtures/desk-client.ts';
import { isRunning, largeBytes } from '../production/domain-fixture.ts';
import { DeskScene, readUntil } from './desk-scene.ts';

const launcher = fileURLToPath(new URL('../../../src/cli/weightroom.mjs', import.meta.url));

interface Address {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
}

interface Served extends Address {
  readonly child: ChildProcess;
}

function start(scene: DeskScene, ...args: string[]): ChildProcess {
  const env = { PATH: process.env['PATH'] ?? '', ...scene.env };
  const child = spawn(process.execPath, [launcher, 'serve', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** Resolves at its first line, which is the whole of what it prints with --json. */
async function served(scene: DeskScene, ...args: string[]): Promise<Served> {
  const child = start(scene, '--json', ...args);
  if (child.stdout === null) throw new Error('no stdout');
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const address = JSON.parse(line) as Address;
  expect(Object.keys(address)).toEqual(['url', 'port', 'pid']);
  return { ...address, child };
}

async function connected({ url }: Address): Promise<DeskClient> {
  const { client, close } = await connectDesk(url);
  onTestFinished(close);
  return client;
}

async function ended(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

test('prints its address first, serves the contract, and a second one prints the same address', async () => {
  const scene = new DeskScene();
  const first = await served(scene, '--port', '0');
  const client = await connected(first);
  expect(await client.app.status()).toMatchObject({ pid: first.pid, transport: 'websocket' });

  const record = scene.path('state', 'weightroom', 'browser-host.json');
  expect(statSync(record).mode & 0o777).toBe(0o600);
  expect(statSync(scene.path('state', 'weightroom')).mode & 0o777).toBe(0o700);

  const second = await served(scene);
  expect({ url: second.url, port: second.port, pid: second.pid }).toEqual({
    url: first.url,
    port: first.port,
    pid: first.pid,
  });
  expect(second.child.exitCode ?? (await ended(second.child))).toBe(0);
  expect(isRunning(first.pid)).toBe(true);
});

test.each(['SIGINT', 'SIGTERM'] as const)('%s ends it, its builds and its connections', async (signal) => {
  const scene = new DeskScene();
  const first = await served(scene, '--port', '0');
  const client = await connected(first);
  const root = await scene.store();
  const { path: checkpoint } = scene
    .checkpoint('large')
    .sparse('model.safetensors', 'weight', 'BF16', largeBytes / 2);
  await client.stores.open({ root });
  const { id } = await client.builds.start({ root, checkpoint });
  let pid = 0;
  await readUntil(await client.builds.watch({ id }), (event) => {
    if (event.type === 'state') pid = event.build.pid ?? 0;
    return event.type === 'progress' && event.progress.doneBytes > 0;
  });
  first.child.kill(signal);
  expect(await ended(first.child)).toBe(0);
  expect(isRunning(pid)).toBe(false);
  expect(readdirSync(scene.path('store', 'tmp'))).toEqual([]);
  expect(readdirSync(scene.path('state', 'weightroom'))).toEqual([
    'activity.jsonl',
    'history.sqlite',
    'history.sqlite.lock',
  ]);
  expect(readdirSync(scene.path('config', 'weightroom'))).toEqual(['settings.json']);
});

test('the record of one that was killed is not believed', async () => {
  const scene = new DeskScene();
  const first = await served(scene, '--port', '0');
  first.child.kill('SIGKILL');
  await ended(first.child);
  const record = scene.path('state', 'weightroom', 'browser-host.json');
  expect(existsSync(record)).toBe(true);
  const second = await served(scene, '--port', '0');
  expect(second.pid).not.toBe(first.pid);
  expect(second.url).not.toBe(first.url);
  await connected(second);
});

test('a record that is broken, or names a process that is another one now, is not believed', async () => {
  const scene = new DeskScene();
  const first = await served(scene, '--port', '0');
  first.child.kill('SIGTERM');
  await ended(first.child);
  const record = scene.path('state', 'weightroom', 'browser-host.json');
  const { pid } = process;
  for (const text of ['{', JSON.stringify({ pid, startTicks: '1', port: 9, url: 'http://127.0.0.1:9/' })]) {
    writeFileSync(record, text);
    const next = await served(scene, '--port', '0');
    expect(next.pid).not.toBe(pid);
    next.child.kill('SIGTERM');
    await ended(next.child);
  }
});

test('of two at once one becomes the first, and both print its address', async () => {
  const scene = new DeskScene();
  const both = await Promise.all([served(scene, '--port', '0'), served(scene, '--port', '0')]);
  expect(both[0].url).toBe(both[1].url);
});

test('a port that is taken is said so with what to do', async () => {
  const scene = new DeskScene();
  const other = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const child = start(scene, '--json', '--port', String(port));
  let output = '';
  child.stdout?.on('data', (text: Buffer) => (output += text.toString()));
  expect(await ended(child)).toBe(2);
  expect(JSON.parse(output)).toMatchObject({ failure: { code: 'invalid_config', details: { port } } });
  expect(readdirSync(scene.path('state', 'weightroom'))).toEqual([]);
});
