/**
 * All that the page gets of Electron: one function that asks for a port. It runs isolated from the page and is
 * bundled into one CommonJS file, because a sandboxed preload can load nothing.
 */
import { contextBridge, ipcRenderer } from 'electron';
import { channels } from './channels.ts';

/** The little of the page's world that is needed here; the rest of this folder has no page. */
declare const window: {
  postMessage(message: string, origin: string, ports: readonly unknown[]): void;
  readonly location: { readonly origin: string };
};

contextBridge.exposeInMainWorld('weightroom', {
  connect: async (): Promise<void> => void (await ipcRenderer.invoke(channels.connect)),
});

ipcRenderer.on(channels.port, (event) => {
  window.postMessage(channels.port, window.location.origin, event.ports);
});

// The entry comes once pixels were presented, and so not from a window that only believes that it paints.
new PerformanceObserver((entries, observer) => {
  if (entries.getEntriesByName('first-contentful-paint').length === 0) return;
  observer.disconnect();
  ipcRenderer.send(channels.painted);
}).observe({ type: 'paint' as never, buffered: true });
