/**
 * What a page may not: anything but show itself. Every web contents that ever comes to be gets these limits, the
 * app's own window or not; the pages need nothing of what is denied here.
 */
import { app, shell, type Session, type WebContents, type WebPreferences } from 'electron';
import { isPageUrl } from './app-protocol.ts';
import { isExternalLink } from './external-links.ts';

export function webPreferences(preload: string): WebPreferences {
  return {
    preload,
    contextIsolation: true,
    sandbox: true,
    nodeIntegration: false,
    nodeIntegrationInWorker: false,
    nodeIntegrationInSubFrames: false,
    webSecurity: true,
    allowRunningInsecureContent: false,
    experimentalFeatures: false,
    webviewTag: false,
    navigateOnDragDrop: false,
    spellcheck: false,
  };
}

/** Copying is what a click on *Copy* asks for, and gives away nothing; reading the clipboard is not granted. */
const granted = 'clipboard-sanitized-write';

export function denyPermissions(session: Session): void {
  session.setPermissionRequestHandler((contents, permission, answer) => {
    answer(permission === granted && isPageUrl(contents.getURL()));
  });
  session.setPermissionCheckHandler((contents, permission) => {
    return permission === granted && contents !== null && isPageUrl(contents.getURL());
  });
  session.setDevicePermissionHandler(() => false);
}

/** The pages' files are all that is ever loaded; the policy says the same, and this does not rely on it. */
export function denyRemoteContent(session: Session): void {
  session.webRequest.onBeforeRequest(({ url }, answer) => {
    const isOwn = isPageUrl(url) || url.startsWith('devtools:') || url.startsWith('data:image/');
    answer({ cancel: !isOwn });
  });
}

export function guardEveryPage(): void {
  app.on('web-contents-created', (_event, contents) => guard(contents));
}

function guard(contents: WebContents): void {
  const stay = (event: { readonly url: string; preventDefault(): void }): void => {
    if (!isPageUrl(event.url)) event.preventDefault();
  };
  contents.on('will-navigate', stay);
  contents.on('will-redirect', stay);
  contents.on('will-frame-navigate', stay);
  contents.on('will-attach-webview', (event) => event.preventDefault());
  contents.setWindowOpenHandler(({ url }) => {
    if (isExternalLink(url)) void shell.openExternal(url);
    return { action: 'deny' };
  });
}
