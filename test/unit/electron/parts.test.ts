/** The parts of the desktop app that decide something and need no Electron for it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { isExternalLink } from '../../../electron/external-links.ts';
import { WindowState } from '../../../electron/window-state.ts';

describe('a link out of the app', () => {
  it.each([
    ['https://github.com/vllm-project/vllm-omni', true],
    ['http://github.com/vllm-project/vllm-omni', false],
    ['https://github.com.example.com/', false],
    ['https://person:secret@github.com/', false],
    ['file:///etc/passwd', false],
    ['javascript:alert(1)', false],
    ['nothing', false],
  ])('%s: %s', (url, isAllowed) => expect(isExternalLink(url)).toBe(isAllowed));
});

describe('where the window was', () => {
  const screens = [
    { x: 0, y: 0, width: 1920, height: 1080 },
    { x: 1920, y: 0, width: 1280, height: 1024 },
  ];
  const usual = { width: 1280, height: 800 };

  async function boundsOf(text: string | null): Promise<object> {
    const folder = mkdtempSync(join(tmpdir(), 'weightroom-window-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'window.json');
    if (text !== null) writeFileSync(path, text);
    const state = new WindowState(path);
    await state.read();
    return state.bounds(screens);
  }

  const saved = (x: number, y: number): string =>
    JSON.stringify({ x, y, width: 900, height: 600, isMaximized: false });

  it.each([
    [10, 10],
    [2000, 50],
    [-700, 0],
  ])('is where it is again, at %i, %i', async (x, y) => {
    expect(await boundsOf(saved(x, y))).toEqual({ x, y, width: 900, height: 600 });
  });

  it.each([
    [-850, 0],
    [3150, 0],
    [100, -30],
    [100, 1060],
  ])('is forgotten where no screen shows enough of it, at %i, %i', async (x, y) => {
    expect(await boundsOf(saved(x, y))).toEqual(usual);
  });

  it.each([[null], [''], ['{'], ['{"x":1}'], ['{"x":0,"y":0,"width":-5,"height":1,"isMaximized":false}']])(
    'is the usual one with %j',
    async (text) => expect(await boundsOf(text)).toEqual(usual),
  );
});
