/**
 * Where things live when nobody says otherwise, by the XDG base directory specification: settings under the
 * configuration directory, stores and the sample under the data directory, run records under the state
 * directory, what can be made again under the cache directory. The environment is passed in, so that tests
 * have their own.
 */
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

export interface DefaultPaths {
  readonly config: string;
  readonly data: string;
  readonly state: string;
  readonly cache: string;
  /** The store that is used when nobody chose one. */
  readonly store: string;
  /** Checkpoints that the sample makes. */
  readonly samples: string;
  /** What was read from stores: deleting it loses only time. */
  readonly catalog: string;
  /** What happened, and can't be found out again. */
  readonly history: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export function homeOf(env: Environment): string {
  const home = env['HOME'];
  return home !== undefined && isAbsolute(home) ? home : homedir();
}

export function defaultPaths(env: Environment): DefaultPaths {
  const home = homeOf(env);
  const state = join(baseDirectory(env['XDG_STATE_HOME'], join(home, '.local', 'state')), 'weightroom');
  const cache = join(baseDirectory(env['XDG_CACHE_HOME'], join(home, '.cache')), 'weightroom');
  const data = join(baseDirectory(env['XDG_DATA_HOME'], join(home, '.local', 'share')), 'weightroom');
  return {
    config: join(baseDirectory(env['XDG_CONFIG_HOME'], join(home, '.config')), 'weightroom'),
    data,
    state,
    cache,
    store: join(data, 'store'),
    samples: join(data, 'samples'),
    catalog: join(cache, 'catalog.sqlite'),
    history: join(state, 'history.sqlite'),
  };
}

/** The specification says that a relative path is invalid and to be ignored. */
function baseDirectory(configured: string | undefined, fallback: string): string {
  return configured !== undefined && isAbsolute(configured) ? configured : fallback;
}
