/**
 * A window that never shows anything: some drivers, X over SSH, some Wayland sessions. After a while without a
 * first picture the app starts again with software rendering; where that does not help either the pages open in
 * the browser. Both are said, and neither touches the sandbox.
 */
import type { Workstation } from '../src/host/workstation.ts';
import type { BrowserFallback } from './browser-fallback.ts';

/** The switch that a second start is given. */
export const softwareRendering = 'software-rendering';

const usualMs = 15_000;

/** How long the first picture may take, in milliseconds; WEIGHTROOM_FIRST_PAINT_MS says otherwise. */
export function firstPaintMs(env: Readonly<Record<string, string | undefined>>): number {
  const asked = Number(env['WEIGHTROOM_FIRST_PAINT_MS']);
  return Number.isFinite(asked) && asked > 0 ? asked : usualMs;
}

export interface FirstPaint {
  readonly painted: (listener: () => void) => void;
  readonly waitMs: number;
  /** This start is already the second one. */
  readonly isSoftware: boolean;
  readonly workstation: Pick<Workstation, 'reportProblem'>;
  readonly fallback: Pick<BrowserFallback, 'open'>;
  readonly relaunch: () => void;
}

export function watchFirstPaint(options: FirstPaint): void {
  const { painted, waitMs, isSoftware, workstation, fallback, relaunch } = options;
  const timer = setTimeout(() => {
    const seconds = Math.round(waitMs / 1000);
    if (isSoftware) {
      workstation.reportProblem(
        'app',
        `The window showed nothing within ${seconds} s, with software rendering too. The pages were opened in the browser.`,
      );
      fallback.open();
    } else {
      workstation.reportProblem(
        'app',
        `The window showed nothing within ${seconds} s. Weightroom starts again with software rendering.`,
      );
      relaunch();
    }
  }, waitMs);
  let isFirst = true;
  painted(() => {
    clearTimeout(timer);
    if (isFirst && isSoftware) {
      workstation.reportProblem(
        'app',
        'The window is drawn without the graphics card, because with it nothing was shown. Only the pages are slower.',
      );
    }
    isFirst = false;
  });
}
