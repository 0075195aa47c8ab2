/**
 * Opening the desk in the person's browser. The address has the token in it, and every user of a machine can
 * read the arguments of every process: so the browser is given a page that only its owner can read, and that
 * page leads on.
 */
import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { replaceFile } from './durable-file.ts';

export interface OpenedPage {
  readonly remove: () => Promise<void>;
}

/** False where there is no display to open anything on. */
export function hasDisplay(env: Readonly<Record<string, string | undefined>>): boolean {
  return (env['DISPLAY'] ?? '') !== '' || (env['WAYLAND_DISPLAY'] ?? '') !== '';
}

/** `onFailure` is called where no browser could be started. */
export async function openInBrowser(
  url: string,
  pagePath: string,
  onFailure: () => void,
): Promise<OpenedPage> {
  await replaceFile(
    pagePath,
    `<!doctype html><meta charset="utf-8"><title>Weightroom</title><meta http-equiv="refresh" content="0; url=${url}"><a href="${url}">Weightroom</a>\n`,
  );
  const browser = spawn('xdg-open', [pagePath], { stdio: 'ignore', detached: true, cwd: '/' });
  browser.on('error', onFailure);
  browser.on('exit', (code) => {
    if (code !== null && code !== 0) onFailure();
  });
  browser.unref();
  return { remove: async () => await rm(pagePath, { force: true }) };
}
