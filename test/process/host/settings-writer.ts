/** Another process that changes the settings: `add PATH NAME COUNT`, or `hang PATH` while it holds the guard. */
import { guarded } from '../../../src/host/durable-file.ts';
import { SettingsFile } from '../../../src/host/settings-file.ts';

const [what, path = '', name = '', count = '0'] = process.argv.slice(2);

if (what === 'hang') {
  await guarded(path, async () => {
    console.log('holding');
    // Blocks as a process does that is about to be killed: not even the guard is refreshed.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
} else {
  const file = new SettingsFile(path, { onProblem: (message) => console.error(message) });
  for (let index = 0; index < Number(count); index += 1) {
    await file.update((settings) => ({ ...settings, stores: [...settings.stores, `/${name}/${index}`] }));
  }
}
