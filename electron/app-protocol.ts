/**
 * The pages' own origin: the built files, by exact name, with the headers that the browser host gives them.
 * Nothing else answers, and nothing is read from the disk by a name that a page chose.
 */
import { protocol, type Session } from 'electron';
import { buildAdvice } from '../src/host/browser-host.ts';
import { pageHeaders } from '../src/host/page-headers.ts';
import type { StaticFiles } from '../src/host/static-files.ts';

const scheme = 'weightroom';
const host = 'app';
export const pageUrl = `${scheme}://${host}/`;

/** Has to come before the app is ready. */
export function registerPageScheme(): void {
  protocol.registerSchemesAsPrivileged([
    {
      scheme,
      // Standard and secure: an origin of its own, to which the policy's 'self' refers. Module scripts are fetched with CORS.
      privileges: { standard: true, secure: true, supportFetchAPI: true, corsEnabled: true, codeCache: true },
    },
  ]);
}

export function servePages(session: Session, files: StaticFiles): void {
  session.protocol.handle(scheme, (request) => answer(files, request));
}

export function isPageUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.protocol === `${scheme}:` && url.host === host;
}

export function answer(files: StaticFiles, { url, method }: Pick<Request, 'url' | 'method'>): Response {
  const { pathname } = new URL(url);
  if (!isPageUrl(url)) return answerText(404, 'There is nothing here.');
  if (method !== 'GET' && method !== 'HEAD') return answerText(405, 'There is nothing to change here.');
  const file = files.get(pathname);
  if (file === undefined) {
    return pathname === '/' ? answerText(503, buildAdvice) : answerText(404, 'There is nothing here.');
  }
  return new Response(new Uint8Array(file.body), {
    headers: {
      ...pageHeaders([]),
      'Content-Type': file.contentType,
      'Cache-Control': file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    },
  });
}

function answerText(status: number, text: string): Response {
  return new Response(`${text}\n`, {
    status,
    headers: { ...pageHeaders([]), 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' },
  });
}
