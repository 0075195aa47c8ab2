/**
 * When the page's process dies it is loaded again, and people are told; when it keeps dying they are asked. The
 * Workstation lives in another process: builds go on, and the page that comes back shows them.
 */
import { app, dialog, type BrowserWindow } from 'electron';
import type { Workstation } from '../src/host/workstation.ts';
import type { BrowserFallback } from './browser-fallback.ts';

/** So many deaths within so long are bad luck; one more is a fault that loading again does not cure. */
const allowed = { deaths: 3, withinMs: 5 * 60_000 };

export class CrashBudget {
  #deaths: number[] = [];

  /** True while it is worth another try. `nowMs`: since 1970. */
  spend(nowMs: number): boolean {
    this.#deaths = [...this.#deaths.filter((at) => nowMs - at < allowed.withinMs), nowMs];
    return this.#deaths.length <= allowed.deaths;
  }
}

export function watchCrashes(
  window: BrowserWindow,
  workstation: Workstation,
  fallback: BrowserFallback,
): void {
  const budget = new CrashBudget();
  const { webContents } = window;

  webContents.on('render-process-gone', (_event, { reason, exitCode }) => {
    if (reason === 'clean-exit') return;
    if (budget.spend(workstation.now())) {
      workstation.reportProblem(
        'app',
        `The window's page ended by itself (${reason}, code ${exitCode}) and was loaded again. Builds went on.`,
      );
      webContents.reload();
      return;
    }
    void ask(window, {
      message: 'The window’s page keeps ending by itself.',
      detail: `The last time: ${reason}, code ${exitCode}. Builds go on meanwhile. The same pages work in a browser.`,
      buttons: [
        ['Open in the Browser', () => fallback.open()],
        ['Try Again', () => webContents.reload()],
        ['Quit', () => app.quit()],
      ],
    });
  });

  let isAsking = false;
  window.on('unresponsive', () => {
    if (isAsking) return;
    isAsking = true;
    void ask(window, {
      message: 'The window’s page does not answer.',
      detail: 'Builds go on meanwhile.',
      buttons: [
        ['Wait', () => undefined],
        ['Load It Again', () => webContents.reload()],
      ],
    }).finally(() => {
      isAsking = false;
    });
  });
}

/** Processes of Chromium's own, such as the one that draws. It starts them again; that they died is worth knowing. */
export function watchHelperProcesses(workstation: Workstation): void {
  app.on('child-process-gone', (_event, { type, reason, exitCode }) => {
    if (reason === 'clean-exit') return;
    workstation.reportProblem(
      'app',
      `The ${type} process of the window ended by itself (${reason}, code ${exitCode}).`,
    );
  });
}

interface Question {
  readonly message: string;
  readonly detail: string;
  readonly buttons: readonly (readonly [label: string, action: () => void])[];
}

async function ask(window: BrowserWindow, { message, detail, buttons }: Question): Promise<void> {
  const { response } = await dialog.showMessageBox(window, {
    type: 'warning',
    message,
    detail,
    buttons: buttons.map(([label]) => label),
    defaultId: 0,
  });
  buttons[response]?.[1]();
}
