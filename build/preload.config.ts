/** Bundles the desktop app's preload into dist/electron: one CommonJS file, because a sandboxed preload can load nothing. */
import { defineConfig } from 'vite';

export default defineConfig({
  root: 'electron',
  publicDir: false,
  build: {
    outDir: '../dist/electron',
    emptyOutDir: true,
    target: 'chrome132',
    minify: false,
    lib: { entry: 'preload.ts', formats: ['cjs'], fileName: () => 'preload.cjs' },
    rolldownOptions: { external: ['electron'] },
  },
});
