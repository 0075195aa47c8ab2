/** What each page is called: in the window's title, the navigation and the palette. */
import type { Route } from '../state/router.svelte.ts';
import { lastPart, shortKey } from './names.ts';

export function titleOf(route: Route): string {
  switch (route.page) {
    case 'workstation':
      return 'Workstation';
    case 'store':
      return lastPart(route.root);
    case 'artifact':
      return `Artifact ${shortKey(route.key)}`;
    case 'create-store':
      return 'Create a store';
    case 'open-store':
      return 'Open a store';
    case 'builds':
      return 'Builds';
    case 'new-build':
      return 'Start a build';
    case 'cleanup':
      return 'Clean up';
    case 'activity':
      return 'Activity';
    case 'settings':
      return 'Settings';
    case 'unknown':
      return 'No such page';
  }
}
