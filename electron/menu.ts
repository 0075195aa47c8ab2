/** The application menu: the pages by name, and what a desktop program's menu has everywhere. */
import { shell, type MenuItemConstructorOptions } from 'electron';
import { projectUrl } from './external-links.ts';

export interface MenuActions {
  /** Brings the window forward and goes to a page of it, by its address's fragment. */
  readonly show: (hash: string) => void;
  readonly openInBrowser: () => void;
  /** Tools for developers are left out of what people install. */
  readonly isPackaged: boolean;
}

export function menuTemplate({ show, openInBrowser, isPackaged }: MenuActions): MenuItemConstructorOptions[] {
  const page = (label: string, hash: string, accelerator?: string): MenuItemConstructorOptions => ({
    label,
    ...(accelerator === undefined ? {} : { accelerator }),
    click: () => show(hash),
  });
  return [
    {
      label: '&File',
      submenu: [
        page('Start a Build…', '#/builds/new', 'Ctrl+N'),
        { type: 'separator' },
        page('Create a Store…', '#/create-store'),
        page('Open a Store…', '#/open-store', 'Ctrl+O'),
        { type: 'separator' },
        page('Settings', '#/settings', 'Ctrl+,'),
        { type: 'separator' },
        { role: 'quit' },
      ],
    },
    { role: 'editMenu' },
    {
      label: '&Go',
      submenu: [
        page('Workstation', '#/', 'Alt+1'),
        page('Builds', '#/builds', 'Alt+2'),
        page('Activity', '#/activity', 'Alt+3'),
      ],
    },
    {
      label: '&View',
      submenu: [
        { role: 'resetZoom' },
        { role: 'zoomIn' },
        { role: 'zoomOut' },
        { role: 'togglefullscreen' },
        ...(isPackaged
          ? []
          : [
              { type: 'separator' as const },
              { role: 'reload' as const },
              { role: 'toggleDevTools' as const },
            ]),
      ],
    },
    { role: 'windowMenu' },
    {
      role: 'help',
      submenu: [
        { label: 'Open in the Browser', click: openInBrowser },
        { label: 'About vLLM-Omni', click: () => void shell.openExternal(projectUrl) },
        { role: 'about' },
      ],
    },
  ];
}
