/**
 * The browser's way in: the token in the address's fragment is given once for a cookie, and then taken out of
 * the address, so that it is neither bookmarked nor shown on a projector.
 */

/** Gives the token, if the address has one. Throws where the host can't be reached. */
export async function exchangeToken(): Promise<void> {
  const token = tokenIn(location.hash);
  if (token === null) return;
  const response = await fetch('/session', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  // A token that is refused is of no use either: the page then asks for a new address.
  if (response.ok || response.status === 401) {
    history.replaceState(null, '', '#/');
    dispatchEvent(new HashChangeEvent('hashchange'));
  }
}

export async function isSignedIn(): Promise<boolean> {
  const response = await fetch('/session');
  return response.ok;
}

export function tokenIn(hash: string): string | null {
  return /^#token=([\w-]+)$/.exec(hash)?.[1] ?? null;
}
