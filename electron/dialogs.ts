/** The desktop's own part of the contract: native dialogs, over the app's window. */
import { implement, type Router } from '@orpc/server';
import { dialog, type BrowserWindow } from 'electron';
import { desktopContract, type DesktopContract } from '../src/contract/desktop.ts';
import type { ConnectionContext } from '../src/host/rpc-connection.ts';

/** `home`: the folder that `~` stands for in what the page typed. */
export function desktopRouter(
  window: () => BrowserWindow | null,
  home: string,
): Router<DesktopContract, ConnectionContext> {
  const desktop = implement(desktopContract).$context<ConnectionContext>();
  const typedPath = (path: string | null): { defaultPath?: string } =>
    path === null ? {} : { defaultPath: path.replace(/^~(?=\/|$)/, home) };

  return desktop.router({
    choose: desktop.choose.handler(async ({ input: { title, path, file } }) => {
      const options = {
        title,
        ...typedPath(path),
        properties: [file ? ('openFile' as const) : ('openDirectory' as const)],
      };
      const over = window();
      const { canceled, filePaths } = await (over === null
        ? dialog.showOpenDialog(options)
        : dialog.showOpenDialog(over, options));
      return { path: canceled ? null : (filePaths[0] ?? null) };
    }),
  });
}
