/** What the command palette offers: pages, stores, actions, and artifacts that the hosts' stores have. */
import type { Desk } from './desk.svelte.ts';
import { hrefOf, type Route } from './router.svelte.ts';
import type { IconName } from '../parts/icons.ts';
import { nameOfBuild } from '../words/phases.ts';
import { shortKey } from '../words/names.ts';
import { titleOf } from '../words/titles.ts';
import { sizeWords } from '../words/bytes.ts';

export interface Command {
  readonly id: string;
  readonly group: 'Pages' | 'Stores' | 'Actions' | 'Artifacts' | 'Stop';
  readonly icon: IconName;
  readonly words: string;
  readonly detail: string;
  readonly run: () => void | Promise<void>;
}

const pages: readonly { readonly route: Route; readonly icon: IconName }[] = [
  { route: { page: 'workstation' }, icon: 'workstation' },
  { route: { page: 'builds' }, icon: 'builds' },
  { route: { page: 'activity' }, icon: 'activity' },
  { route: { page: 'settings' }, icon: 'settings' },
];

export function commandsOf(desk: Desk): Command[] {
  const go = (route: Route) => (): void => desk.router.go(route);
  const action = (words: string, icon: IconName, run: Command['run'], detail = ''): Command => ({
    id: `action ${words} ${detail}`,
    group: 'Actions',
    icon,
    words,
    detail,
    run,
  });
  return [
    ...pages.map(({ route, icon }): Command => {
      return { id: hrefOf(route), group: 'Pages', icon, words: titleOf(route), detail: '', run: go(route) };
    }),
    ...desk.stores.all.map(({ root, name, state }): Command => {
      const icon = state === 'online' ? 'store' : 'offline';
      return { id: root, group: 'Stores', icon, words: name, detail: root, run: go({ page: 'store', root }) };
    }),
    action('Create a store', 'plus', go({ page: 'create-store' })),
    action('Open a store', 'folder', go({ page: 'open-store' })),
    action('Start a build', 'play', go({ page: 'new-build', root: null, checkpoint: null })),
    ...(['light', 'dark', 'system'] as const)
      .filter((theme) => theme !== desk.theme)
      .map((theme) =>
        action(theme === 'system' ? 'Theme like the system' : `Theme ${theme}`, 'settings', () =>
          desk.setTheme(theme),
        ),
      ),
  ];
}

/** What ends something stands last: Enter on a model's name opens the model, and does not cancel its build. */
export function stopCommandsOf(desk: Desk): Command[] {
  return desk.builds.running.map((build) => ({
    id: `stop ${build.id}`,
    group: 'Stop',
    icon: 'cross',
    words: 'Cancel the build',
    detail: nameOfBuild(build),
    run: async () => {
      await desk.builds.cancel(build.id);
      desk.announcer.say('The build was asked to stop.');
    },
  }));
}

/** Of every store that is online, the first few that match. */
export async function artifactCommands(desk: Desk, search: string): Promise<Command[]> {
  const online = desk.stores.all.filter(({ state }) => state === 'online');
  const pagesOf = await Promise.all(
    online.map(async ({ root, name }) => {
      const page = await desk.connection.client.domain.inventory({
        root,
        search,
        states: ['ready'],
        limit: 8,
      });
      return page.rows.map((row): Command => {
        const words = [row.model ?? shortKey(row.key), row.component].filter(Boolean).join(' · ');
        const detail = `${shortKey(row.key)} · ${sizeWords(row.bytes)} · ${name}`;
        const run = (): void => desk.router.go({ page: 'artifact', root, key: row.key });
        return { id: `${root} ${row.id}`, group: 'Artifacts', icon: 'artifact', words, detail, run };
      });
    }),
  );
  return pagesOf.flat();
}

export function matches(command: Command, search: string): boolean {
  const text = `${command.words} ${command.detail} ${command.group}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
