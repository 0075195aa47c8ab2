/** Quitting ends what the app runs: so it asks first where that is more than a window. */
import { app, dialog, type BrowserWindow } from 'electron';
import type { Workstation } from '../src/host/workstation.ts';

export interface Quitting {
  /** False while something runs that nobody agreed to cancel: the window then stays. */
  readonly mayClose: () => boolean;
}

/** `end` stops everything that the app owns; the process goes when it is done. */
export function askBeforeQuitting(
  workstation: Pick<Workstation, 'builds'>,
  window: () => BrowserWindow | null,
  end: () => Promise<void>,
): Quitting {
  let state: 'open' | 'agreed' | 'ended' = 'open';
  let isAsking = false;
  const running = (): number => workstation.builds.list().filter(({ result }) => result === null).length;

  app.on('before-quit', (event) => {
    if (state !== 'open') return;
    const builds = running();
    if (builds === 0) return;
    event.preventDefault();
    if (isAsking) return;
    isAsking = true;
    void agrees(builds, window()).then((isAgreed) => {
      isAsking = false;
      if (!isAgreed) return;
      state = 'agreed';
      app.quit();
    });
  });
  // Electron asks again at each further wish to quit; what runs is ended once.
  let ending: Promise<void> | null = null;
  app.on('will-quit', (event) => {
    if (state === 'ended') return;
    event.preventDefault();
    ending ??= end().then(
      () => leave(0),
      (error: unknown) => {
        console.error(error);
        leave(1);
      },
    );
  });
  function leave(code: number): void {
    state = 'ended';
    app.exit(code);
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // Who sends a signal has decided, and who sends it again will not wait for the end.
    let isSecond = false;
    process.on(signal, () => {
      if (isSecond) return leave(1);
      isSecond = true;
      state = 'agreed';
      app.quit();
    });
  }
  return { mayClose: () => state !== 'open' || running() === 0 };
}

async function agrees(running: number, window: BrowserWindow | null): Promise<boolean> {
  const options = {
    type: 'question' as const,
    message: running === 1 ? 'A build is running.' : `${running} builds are running.`,
    detail: 'Quitting cancels what runs. Nothing half-built is left behind.',
    buttons: ['Go On Building', 'Cancel and Quit'],
    defaultId: 0,
    cancelId: 0,
  };
  const { response } = await (window === null
    ? dialog.showMessageBox(options)
    : dialog.showMessageBox(window, options));
  return response === 1;
}
