/** Where the window was, kept between starts; a place that no screen shows any more is forgotten. */
import type { BrowserWindow, Rectangle } from 'electron';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { guarded, replaceFile } from '../src/host/durable-file.ts';

const savedState = z.object({
  x: z.int(),
  y: z.int(),
  width: z.int().min(1),
  height: z.int().min(1),
  isMaximized: z.boolean(),
});
type SavedState = z.infer<typeof savedState>;

const usual = { width: 1280, height: 800 };
/** So much of the window has to be on a screen that it can be taken hold of, in pixels. */
const grip = { width: 120, height: 40 };
/** Dragging tells of every pixel. */
const restMs = 500;

export class WindowState {
  readonly #path: string;
  #saved: SavedState | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** A file that is missing or that nobody can read is the same as none: the usual size, where the desktop likes. */
  async read(): Promise<void> {
    try {
      const parsed = savedState.safeParse(JSON.parse(await readFile(this.#path, 'utf8')));
      this.#saved = parsed.success ? parsed.data : null;
    } catch {
      this.#saved = null;
    }
  }

  bounds(screens: readonly Rectangle[]): Partial<Rectangle> & { width: number; height: number } {
    const saved = this.#saved;
    if (saved === null) return usual;
    const { x, y, width, height } = saved;
    return screens.some((area) => isReachable(saved, area)) ? { x, y, width, height } : usual;
  }

  follow(window: BrowserWindow): void {
    if (this.#saved?.isMaximized === true) window.maximize();
    let timer: NodeJS.Timeout | undefined;
    const save = (): void => {
      clearTimeout(timer);
      const text = JSON.stringify({ ...window.getNormalBounds(), isMaximized: window.isMaximized() });
      // Where a window was is not worth a word to anybody.
      guarded(this.#path, async () => await replaceFile(this.#path, text)).catch(() => undefined);
    };
    const soon = (): void => {
      clearTimeout(timer);
      timer = setTimeout(save, restMs);
    };
    window.on('resize', soon);
    window.on('move', soon);
    window.on('close', save);
  }
}

function isReachable(window: Rectangle, area: Rectangle): boolean {
  const overlap = (from: number, size: number, areaFrom: number, areaSize: number): number =>
    Math.min(from + size, areaFrom + areaSize) - Math.max(from, areaFrom);
  return (
    overlap(window.x, window.width, area.x, area.width) >= Math.min(grip.width, window.width) &&
    overlap(window.y, window.height, area.y, area.height) >= Math.min(grip.height, window.height) &&
    // The upper edge is what a window is dragged by.
    window.y >= area.y
  );
}
