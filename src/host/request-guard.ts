/**
 * Which requests reach the browser host at all. It must be addressed as this machine, so that no name that
 * somebody points here (DNS rebinding) can be the origin of a page that talks to it; and a request that a page
 * makes must come from the host's own pages. The port of an SSH tunnel may be another than the host's, so the
 * origin is held against the address that the request itself names.
 */
import type { IncomingHttpHeaders } from 'node:http';

const ownNames = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i;

/** Why a request is refused; null where it is not. */
export function refusalOf(headers: IncomingHttpHeaders, method: string): string | null {
  const { host, origin } = headers;
  if (host === undefined || !ownNames.test(host)) {
    return 'This server answers only to 127.0.0.1 and localhost.';
  }
  if (origin !== undefined && !isOwnOrigin(origin, host)) {
    return 'This server answers only to its own pages.';
  }
  const site = headers['sec-fetch-site'];
  const isNavigation = method === 'GET' && headers['sec-fetch-mode'] === 'navigate';
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isNavigation) {
    return 'This server answers only to its own pages.';
  }
  return null;
}

/** A WebSocket is no navigation, and every browser says where it comes from. */
export function upgradeRefusalOf(headers: IncomingHttpHeaders): string | null {
  if (headers.origin === undefined) return 'A connection must name its origin.';
  return refusalOf(headers, 'UPGRADE');
}

function isOwnOrigin(origin: string, host: string): boolean {
  return origin.toLowerCase() === `http://${host.toLowerCase()}`;
}
