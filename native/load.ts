/** Finds the compiled addon and says in plain words what to do when it is not there or does not fit. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { CompiledAddon } from './index.ts';

export const addonPath = fileURLToPath(new URL('./build/Release/weightroom.node', import.meta.url));

export function loadAddon(path = addonPath): CompiledAddon {
  if (!existsSync(path)) {
    throw new Error(
      'The native addon has not been built, so locks and files cannot be used. ' +
        'Run `npm run postinstall` in the project folder (it needs g++, make and python3) and look at what it prints.',
    );
  }
  try {
    return createRequire(import.meta.url)(path) as CompiledAddon;
  } catch (cause) {
    throw new Error(
      `The native addon at ${path} does not load in this Node (${process.version}, ${process.platform} ${process.arch}). ` +
        'It was probably built on another machine: run `npm run postinstall` again here.',
      { cause },
    );
  }
}
