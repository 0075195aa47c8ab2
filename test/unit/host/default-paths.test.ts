import { expect, it } from 'vitest';

import { defaultPaths } from '../../../src/host/default-paths.ts';

it('follows the XDG variables', () => {
  const paths = defaultPaths({
    HOME: '/h',
    XDG_CONFIG_HOME: '/f',
    XDG_DATA_HOME: '/d',
    XDG_STATE_HOME: '/s',
    XDG_CACHE_HOME: '/c',
  });
  expect(paths).toEqual({
    config: '/f/weightroom',
    data: '/d/weightroom',
    state: '/s/weightroom',
    cache: '/c/weightroom',
    store: '/d/weightroom/store',
    samples: '/d/weightroom/samples',
    catalog: '/c/weightroom/catalog.sqlite',
    history: '/s/weightroom/history.sqlite',
  });
});

it('falls back to the home directory, also for relative paths, which the specification calls invalid', () => {
  for (const XDG_DATA_HOME of [undefined, '', 'data', './data']) {
    const paths = defaultPaths({ HOME: '/h', XDG_DATA_HOME });
    expect(paths.store).toBe('/h/.local/share/weightroom/store');
    expect(paths.config).toBe('/h/.config/weightroom');
    expect(paths.state).toBe('/h/.local/state/weightroom');
    expect(paths.cache).toBe('/h/.cache/weightroom');
  }
});
