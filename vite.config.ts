/**
 * Builds the pages into dist/renderer. They are served under a strict content security policy, so nothing is
 * inlined: no script, no style, no image as a data URL.
 */
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

/** For `npm run dev`: where `weightroom serve` (or the fake host) listens. */
const host = process.env['WEIGHTROOM_HOST'] ?? 'http://127.0.0.1:7411';
const headers = { origin: host };

export default defineConfig({
  root: 'renderer',
  plugins: [svelte({ configFile: false })],
  build: {
    outDir: '../dist/renderer',
    emptyOutDir: true,
    target: 'chrome132',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: true,
  },
  server: {
    proxy: {
      '/session': { target: host, changeOrigin: true, headers },
      '/rpc': { target: host, changeOrigin: true, headers, ws: true },
    },
  },
});
