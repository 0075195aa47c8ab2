/** Settings that several processes write: nobody's change is lost, and nobody's text is thrown away. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { SettingsFile } from '../../../src/host/settings-file.ts';
import { until } from '../production/domain-fixture.ts';
import { DeskScene } from './desk-scene.ts';

const writer = fileURLToPath(new URL('settings-writer.ts', import.meta.url));

/** Another process of ours that changes the same file. */
function startWriter(...args: string[]): ReturnType<typeof spawn> {
  const child = spawn(process.execPath, [writer, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function opened(scene: DeskScene): Promise<{ file: SettingsFile; problems: string[] }> {
  const problems: string[] = [];
  const file = new SettingsFile(scene.settingsPath, { onProblem: (message) => problems.push(message) });
  await file.open();
  onTestFinished(() => file.close());
  return { file, problems };
}

function namesBeside(path: string): string[] {
  return readdirSync(dirname(path)).sort();
}

test('without a file there are defaults, and reading them writes nothing', async () => {
  const scene = new DeskScene();
  const { file, problems } = await opened(scene);
  expect(file.current).toEqual({ theme: 'system', stores: [] });
  expect(problems).toEqual([]);
  expect(existsSync(scene.settingsPath)).toBe(false);
});

test('three processes change them at once, and every change is there', async () => {
  const scene = new DeskScene();
  const { file } = await opened(scene);
  const others = ['a', 'b'].map((name) => startWriter('add', scene.settingsPath, name, '15'));
  for (let index = 0; index < 15; index += 1) {
    await file.update((settings) => ({ ...settings, stores: [...settings.stores, `/own/${index}`] }));
  }
  await Promise.all(others.map(async (child) => expect((await once(child, 'exit'))[0]).toBe(0)));
  const written = JSON.parse(readFileSync(scene.settingsPath, 'utf8')) as { stores: string[] };
  expect(written.stores).toHaveLength(45);
  expect(new Set(written.stores).size).toBe(45);
  expect(namesBeside(scene.settingsPath)).toEqual(['settings.json']);
  expect(statSync(scene.settingsPath).mode & 0o777).toBe(0o600);
});

test('what another process changes is told here', async () => {
  const scene = new DeskScene();
  const { file } = await opened(scene);
  await file.update((settings) => ({ ...settings, theme: 'dark' }));
  // Notices are set up when the folder is there, as it is from the second start on.
  const { file: second } = await opened(scene);
  const told: string[][] = [];
  second.changed.subscribe(({ stores }) => told.push([...stores]));
  startWriter('add', scene.settingsPath, 'other', '1');
  await until(() => told.length > 0);
  expect(told.at(-1)).toEqual(['/other/0']);
  expect(second.current.theme).toBe('dark');
});

test('a process that is killed while it holds the guard delays the next one, and breaks nothing', async () => {
  const scene = new DeskScene();
  const { file } = await opened(scene);
  await file.update((settings) => ({ ...settings, theme: 'light' }));
  const child = startWriter('hang', scene.settingsPath);
  if (child.stdout === null) throw new Error('no stdout');
  await once(createInterface({ input: child.stdout }), 'line');
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(existsSync(`${scene.settingsPath}.lock`)).toBe(true);
  const settings = await file.update((before) => ({ ...before, stores: ['/x'] }));
  expect(settings).toEqual({ theme: 'light', stores: ['/x'] });
  expect(existsSync(`${scene.settingsPath}.lock`)).toBe(false);
});

test.each([
  ['half a document', '{"theme": "dark", '],
  ['another kind of value', '[1, 2, 3]'],
  ['a theme that there is not', '{"theme": "pink"}'],
  ['nothing', ''],
])('%s is set aside, reported, and replaced by defaults', async (_what, text) => {
  const scene = new DeskScene();
  scene.writeSettings(text);
  const { file, problems } = await opened(scene);
  expect(file.current).toEqual({ theme: 'system', stores: [] });
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(scene.settingsPath);
  const [kept, current] = namesBeside(scene.settingsPath).reverse();
  expect(current).toBe('settings.json');
  expect(readFileSync(scene.path('config', 'weightroom', kept ?? ''), 'utf8')).toBe(text);
});

test('a broken file is told by activity and status', async () => {
  const scene = new DeskScene();
  scene.writeSettings('{');
  const desk = await scene.desk();
  const client = desk.inProcess();
  expect((await client.app.status()).problems).toHaveLength(1);
  const { entries } = await client.activity.list();
  expect(entries).toMatchObject([{ kind: 'settings', severity: 'warning' }]);
});

test('fields of a newer version stay, and missing ones have their defaults', async () => {
  const scene = new DeskScene();
  scene.writeSettings('{"stores": ["/a"], "fieldOfTomorrow": "/x.so"}');
  const { file } = await opened(scene);
  expect(file.current).toEqual({ theme: 'system', stores: ['/a'] });
  await file.update((settings) => ({ ...settings, theme: 'dark' }));
  expect(JSON.parse(readFileSync(scene.settingsPath, 'utf8'))).toEqual({
    stores: ['/a'],
    fieldOfTomorrow: '/x.so',
    theme: 'dark',
  });
});

test('activity outlives the program, and lines that are broken are passed over', async () => {
  const scene = new DeskScene();
  const first = await scene.desk();
  await first.inProcess().stores.open({ root: await scene.store() });
  await first.close();
  const path = scene.path('state', 'weightroom', 'activity.jsonl');
  writeFileSync(path, `not json\n{"id": 3}\n${readFileSync(path, 'utf8')}{"half`);
  const second = await scene.desk();
  const { entries, more } = await second.inProcess().activity.list();
  expect(entries).toMatchObject([{ kind: 'store-opened', root: scene.path('store') }]);
  expect(more).toBe(false);
});
