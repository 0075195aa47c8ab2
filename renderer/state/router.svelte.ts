/** Which page is shown: the address's fragment, as a value. */
import { tokenIn } from '../connection/session.ts';

export type Route =
  | { readonly page: 'workstation' }
  | { readonly page: 'create-store' }
  | { readonly page: 'open-store' }
  | { readonly page: 'store'; readonly root: string }
  | { readonly page: 'artifact'; readonly root: string; readonly key: string }
  | { readonly page: 'builds' }
  | { readonly page: 'new-build'; readonly root: string | null; readonly checkpoint: string | null }
  | { readonly page: 'cleanup'; readonly root: string | null }
  | { readonly page: 'activity' }
  | { readonly page: 'settings' }
  | { readonly page: 'unknown'; readonly address: string };

export function hrefOf(route: Route): string {
  switch (route.page) {
    case 'workstation':
      return '#/';
    case 'store':
      return `#/store/${encodeURIComponent(route.root)}`;
    case 'artifact':
      return `#/store/${encodeURIComponent(route.root)}/artifact/${route.key}`;
    case 'new-build': {
      const query = new URLSearchParams();
      if (route.root !== null) query.set('store', route.root);
      if (route.checkpoint !== null) query.set('checkpoint', route.checkpoint);
      return query.size === 0 ? '#/builds/new' : `#/builds/new?${query.toString()}`;
    }
    case 'cleanup':
      return route.root === null ? '#/cleanup' : `#/cleanup/${encodeURIComponent(route.root)}`;
    case 'unknown':
      return '#/';
    default:
      return `#/${route.page}`;
  }
}

export function routeOf(hash: string): Route {
  if (tokenIn(hash) !== null) return { page: 'workstation' };
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/');
  const [first, second, third, fourth] = parts;
  const root = second === undefined ? null : decoded(second);
  if (path === '') return { page: 'workstation' };
  if (path === 'builds/new') {
    const asked = new URLSearchParams(query);
    return { page: 'new-build', root: asked.get('store'), checkpoint: asked.get('checkpoint') };
  }
  if (parts.length === 1) {
    const simple = ['create-store', 'open-store', 'builds', 'activity', 'settings'] as const;
    const page = simple.find((name) => name === first);
    if (page !== undefined) return { page };
  }
  if (path === 'cleanup') return { page: 'cleanup', root: null };
  if (first === 'cleanup' && root !== null && parts.length === 2) return { page: 'cleanup', root };
  if (first === 'store' && root !== null && parts.length === 2) return { page: 'store', root };
  if (first === 'store' && root !== null && third === 'artifact' && /^[0-9a-f]{64}$/.test(fourth ?? '')) {
    return { page: 'artifact', root, key: fourth as string };
  }
  return { page: 'unknown', address: hash };
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

export class Router {
  #route = $state.raw<Route>({ page: 'workstation' });

  get route(): Route {
    return this.#route;
  }

  start(): void {
    this.#route = routeOf(location.hash);
    addEventListener('hashchange', () => {
      this.#route = routeOf(location.hash);
    });
  }

  /** To where something that was begun on `page` leads: not for somebody who has gone elsewhere meanwhile. */
  follow(page: Route['page'], route: Route): void {
    if (this.#route.page === page) this.go(route);
  }

  go(route: Route): void {
    location.hash = hrefOf(route);
  }
}
