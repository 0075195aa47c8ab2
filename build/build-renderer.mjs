// Builds the pages, and the desktop app's preload, so that after `npm ci` everything that is needed to run is
// there. Vite is a development dependency: an installation without those brings its pages along.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js');
const pinned = join(root, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node');

if (!existsSync(vite)) {
  console.log('Weightroom: the pages were not built, because vite is not installed.');
} else {
  // Vite needs a newer Node than the one that may run this.
  const node = existsSync(pinned) ? pinned : process.execPath;
  for (const config of ['vite.config.ts', 'build/preload.config.ts']) {
    const { status, stdout, stderr } = spawnSync(
      node,
      [vite, 'build', '--config', config, '--logLevel', 'warn'],
      { cwd: root, encoding: 'utf8' },
    );
    if (status === 0) continue;
    console.error(`${stdout}${stderr}\nWeightroom: the pages could not be built; see above.`);
    process.exit(1);
  }
  console.log('Weightroom: built the pages.');
}
