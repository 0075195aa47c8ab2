/** `weightroom start`, over a program that stands where Electron's would and does one thing. */
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Place, type RunningCommand } from './weightroom.ts';

/** Chromium's sandbox, and so the app, does not start as root. */
const person = process.getuid?.() === 0 ? 65534 : undefined;

/** A folder with an `electron` that runs `script`, and the helper of its sandbox. */
function program(place: Place, script: string): string {
  const folder = place.at('electron');
  mkdirSync(folder, { mode: 0o755 });
  const binary = join(folder, 'electron');
  writeFileSync(binary, `#!/bin/sh\n${script}\n`);
  chmodSync(binary, 0o755);
  const helper = join(folder, 'chrome-sandbox');
  writeFileSync(helper, '');
  if (person !== undefined) {
    chownSync(helper, 0, 0);
    chmodSync(helper, 0o4755);
  }
  return folder;
}

/** Waits for an address on stdout, then ends the command as Ctrl+C does. */
async function addressOf(command: RunningCommand): Promise<string> {
  const { child } = command;
  if (child.stdout === null) throw new Error('no stdout');
  let text = '';
  while (!/#token=[\w-]+/.test(text)) text += String(await once(child.stdout, 'data'));
  child.kill('SIGINT');
  return text;
}

describe('start', () => {
  it('opens the desktop app where its program is and there is a display', async () => {
    const place = new Place({ ...(person === undefined ? {} : { uid: person }) });
    const folder = program(place, `echo "$1 $DISPLAY [$ELECTRON_RUN_AS_NODE]" > "$HOME/started"`);
    const { code, stderr } = await place.start(['start'], {
      env: { DISPLAY: ':7', ELECTRON_OVERRIDE_DIST_PATH: folder, ELECTRON_RUN_AS_NODE: '1' },
    }).ended;
    expect(stderr).toContain('Starting the desktop app');
    expect(code).toBe(0);
    expect(readFileSync(place.at('started'), 'utf8')).toMatch(/\/electron\/main\.ts :7 \[\]\n$/);
  });

  it('serves the pages where the app does not come up, and says what it ended with', async () => {
    const place = new Place({ ...(person === undefined ? {} : { uid: person }) });
    const folder = program(place, 'exit 133');
    const command = place.start(['start'], { env: { DISPLAY: ':7', ELECTRON_OVERRIDE_DIST_PATH: folder } });
    await addressOf(command);
    expect((await command.ended).stderr).toContain('does not work here: it ended with 133');
  });

  it('serves the pages without a display, and prints their address', async () => {
    const place = new Place();
    const folder = program(place, 'touch "$HOME/started"');
    const command = place.start(['start'], { env: { ELECTRON_OVERRIDE_DIST_PATH: folder } });
    expect(await addressOf(command)).toMatch(/http:\/\/127\.0\.0\.1:\d+\/#token=/);
    expect((await command.ended).stderr).toContain('There is no display here');
    expect(existsSync(place.at('started'))).toBe(false);
  });

  it('serves the pages without the program, and says how to have it', async () => {
    const place = new Place();
    const command = place.start(['start'], {
      env: { ELECTRON_OVERRIDE_DIST_PATH: place.at('none') },
    });
    expect(await addressOf(command)).toContain('#token=');
    expect((await command.ended).stderr).toContain('not installed');
  });
});
