/** Quitting ends what the app runs: so it asks first where that is more than a window. */
import { app, dialog, type BrowserWindow } from 'electron';
import type { Workstation } from '../src/host/workstation.ts';

/** `end` stops everything that the app owns; the process goes when it is done. */
export function askBeforeQuitting(
  workstation: Pick<Workstation, 'builds'>,
  window: () => BrowserWindow | null,
  end: () => Promise<void>,
): void {
  let state: 'open' | 'agreed' | 'ended' = 'open';
  app.on('before-quit', (event) => {
    if (state !== 'open') return;
    const running = workstation.builds.list().filter(({ result }) => result === null).length;
    if (running === 0) return;
    event.preventDefault();
    void agrees(running, window()).then((isAgreed) => {
      if (!isAgreed) return;
      state = 'agreed';
      app.quit();
    });
  });
  app.on('will-quit', (event) => {
    if (state === 'ended') return;
    event.preventDefault();
    void end().finally(() => {
      state = 'ended';
      app.exit();
    });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // Who sends a signal has decided.
    process.on(signal, () => {
      state = 'agreed';
      app.quit();
    });
  }
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
