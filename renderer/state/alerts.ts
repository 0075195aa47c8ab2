/** What needs somebody's attention, derived from what the desk knows; each with what can be done about it. */
import type { Desk } from './desk.svelte.ts';
import { hrefOf, type Route } from './router.svelte.ts';
import { sizeWords } from '../words/bytes.ts';
import { codeTitles } from '../words/failures.ts';
import { nameOfBuild } from '../words/phases.ts';

export interface Alert {
  readonly id: string;
  readonly tone: 'bad' | 'warning';
  readonly message: string;
  readonly action: { readonly words: string; readonly href: string } | null;
}

/** A store that is fuller than this is told about. */
const fullShare = 0.9;

/** `here`: the page that is open; a failure that it tells itself is not told above it again. */
export function alertsOf(desk: Desk, here: Route): Alert[] {
  const alerts: Alert[] = [];
  for (const { message } of desk.status.value?.problems ?? []) {
    const action = { words: 'See Settings', href: hrefOf({ page: 'settings' }) };
    alerts.push({ id: `problem ${message}`, tone: 'warning', message, action });
  }
  for (const store of desk.stores.all) {
    const { root, name } = store;
    const action = { words: 'Look at it', href: hrefOf({ page: 'store', root }) };
    if (store.state === 'offline') {
      const message = `The store ${name} is offline.`;
      alerts.push({ id: `offline ${root}`, tone: 'bad', message, action });
      continue;
    }
    const { maxStoreBytes, minFreeBytes } = store.domain.capacity;
    const { storeBytes, filesystemFreeBytes } = store.usage;
    if (maxStoreBytes !== null && storeBytes > maxStoreBytes * fullShare) {
      const message = `${name} is nearly full: ${sizeWords(storeBytes)} of the ${sizeWords(maxStoreBytes)} that it may hold.`;
      alerts.push({ id: `full ${root}`, tone: 'warning', message, action });
    }
    if (filesystemFreeBytes < minFreeBytes) {
      const message = `The disk of ${name} has ${sizeWords(filesystemFreeBytes)} free, less than the ${sizeWords(minFreeBytes)} that builds must leave: nothing can be built into it.`;
      alerts.push({ id: `free ${root}`, tone: 'warning', message, action });
    }
  }
  for (const build of desk.builds.failed) {
    const code = build.result?.failure?.code;
    const why = code === undefined ? '' : `: ${codeTitles[code].toLowerCase()}`;
    const message = `The build of ${nameOfBuild(build)} failed${why}.`;
    const action = { words: 'See why', href: hrefOf({ page: 'builds' }) };
    alerts.push({ id: `build ${build.id}`, tone: 'bad', message, action });
  }
  const address = hrefOf(here);
  return alerts.filter(({ tone, action }) => tone !== 'bad' || action?.href !== address);
}
