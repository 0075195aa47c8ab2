/** The desktop's own part of the contract: native dialogs, over the app's window. */
import { writeFile } from 'node:fs/promises';
import { implement, type Router } from '@orpc/server';
import { dialog, shell, type BrowserWindow } from 'electron';
import { failureErrorCode } from '../src/contract/call-failure.ts';
import { desktopContract, type DesktopContract } from '../src/contract/desktop.ts';
import { failure, type Failure } from '../src/contract/failure.ts';
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
        properties: [file ? ('openFile' as const) : ('openDirectory' as const), 'createDirectory' as const],
      };
      const over = window();
      const { canceled, filePaths } = await (over === null
        ? dialog.showOpenDialog(options)
        : dialog.showOpenDialog(over, options));
      return { path: canceled ? null : (filePaths[0] ?? null) };
    }),
    save: desktop.save.handler(async ({ input: { title, name, text }, errors }) => {
      const options = { title, defaultPath: name };
      const over = window();
      const { canceled, filePath } = await (over === null
        ? dialog.showSaveDialog(options)
        : dialog.showSaveDialog(over, options));
      if (canceled || filePath === '') return { path: null };
      try {
        await writeFile(filePath, text);
      } catch (error) {
        throw errors[failureErrorCode]({ data: writeFailure(filePath, error) });
      }
      return { path: filePath };
    }),
    reveal: desktop.reveal.handler(({ input: { path } }) => {
      shell.showItemInFolder(path);
      return {};
    }),
  });
}

function writeFailure(path: string, error: unknown): Failure {
  const why = error instanceof Error ? error.message : String(error);
  const message = `${path} could not be written: ${why}`;
  return failure('configuration', 'unsupported', message, { retryable: true, details: { path } });
}
