/**
 * Whether the desktop app can be started here, decided before it is: Chromium ends at once, with a line that
 * nobody understands, where its sandbox can't start. The sandbox is never switched off instead.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { hasDisplay } from './browser-opening.ts';
import type { Environment } from './default-paths.ts';
import { installationFolder } from './protected-roots.ts';

export type DesktopChoice =
  | { readonly kind: 'desktop'; readonly binary: string; readonly main: string; readonly why: string }
  /** `why`: a sentence; `advice`: what would change it, a line each. */
  | { readonly kind: 'browser'; readonly why: string; readonly advice: readonly string[] };

/** What is asked of the machine; tests have their own. */
export interface Machine {
  readonly uid: number;
  readonly installation: string;
  /** The text of a file; null where there is none. */
  readonly read: (path: string) => string | null;
  readonly exists: (path: string) => boolean;
  /** Owned by root and set-user-ID. */
  readonly isSetuidRoot: (path: string) => boolean;
}

export function chooseDesktop(env: Environment, machine: Machine = thisMachine()): DesktopChoice {
  const folder =
    env['ELECTRON_OVERRIDE_DIST_PATH'] ?? join(machine.installation, 'node_modules/electron/dist');
  const binary = join(folder, 'electron');
  if (!machine.exists(binary)) {
    const why = 'Electron’s program is not installed, so the pages are served to a browser.';
    return {
      kind: 'browser',
      why,
      advice: [
        '`npx install-electron` downloads it; ELECTRON_OVERRIDE_DIST_PATH names a folder that has it.',
      ],
    };
  }
  if (!hasDisplay(env)) {
    return { kind: 'browser', why: 'There is no display here for the desktop app.', advice: [] };
  }
  const problem = sandboxProblem(folder, machine);
  if (problem !== null) return { kind: 'browser', ...problem };
  return {
    kind: 'desktop',
    binary,
    main: join(machine.installation, 'electron', 'main.ts'),
    why: `Starting the desktop app with ${binary}.`,
  };
}

function sandboxProblem(
  folder: string,
  { uid, read, isSetuidRoot }: Machine,
): { why: string; advice: string[] } | null {
  if (uid === 0) {
    return {
      why: 'The desktop app does not run as root: Chromium’s sandbox, which keeps its pages apart from the rest, can’t.',
      advice: ['Start it as the person who sits here.'],
    };
  }
  // The older helper does where the kernel does not let everybody have a user namespace.
  const helper = join(folder, 'chrome-sandbox');
  if (isSetuidRoot(helper)) return null;
  const setting = restrictions.find(({ path, value }) => read(path)?.trim() === value);
  if (setting === undefined) return null;
  return {
    why: `Chromium’s sandbox can’t start here: ${setting.words} (${setting.path} is ${setting.value}).`,
    advice: [
      `Let its helper do it: sudo chown root ${helper} && sudo chmod 4755 ${helper}`,
      ...setting.advice,
      'Starting it without its sandbox is nothing that Weightroom does by itself.',
    ],
  };
}

const restrictions = [
  {
    path: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    value: '1',
    words: 'AppArmor lets only programs that it knows have a user namespace',
    advice: ['Or give the program an AppArmor profile that has `userns,` in it.'],
  },
  {
    path: '/proc/sys/kernel/unprivileged_userns_clone',
    value: '0',
    words: 'only root may have a user namespace',
    advice: ['Or: sudo sysctl kernel.unprivileged_userns_clone=1'],
  },
  {
    path: '/proc/sys/user/max_user_namespaces',
    value: '0',
    words: 'nobody may have a user namespace',
    advice: ['Or: sudo sysctl user.max_user_namespaces=10000'],
  },
] as const;

function thisMachine(): Machine {
  return {
    uid: process.getuid?.() ?? -1,
    installation: installationFolder,
    exists: existsSync,
    read: (path) => {
      try {
        return readFileSync(path, 'latin1');
      } catch {
        return null;
      }
    },
    isSetuidRoot: (path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      return stat !== undefined && stat.uid === 0 && (stat.mode & 0o4000) !== 0;
    },
  };
}
