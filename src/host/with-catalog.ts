/** The catalog and the history for one piece of work and no longer: what a command needs. */
import { Catalog } from '../catalog/catalog.ts';
import { History } from '../catalog/history.ts';
import { defaultPaths, type Environment } from './default-paths.ts';

export async function withCatalog<T>(env: Environment, work: (catalog: Catalog) => Promise<T>): Promise<T> {
  const catalog = await Catalog.open(defaultPaths(env).catalog);
  try {
    return await work(catalog);
  } finally {
    catalog.close();
  }
}

export async function withHistory<T>(env: Environment, work: (history: History) => Promise<T>): Promise<T> {
  const history = await History.open(defaultPaths(env).history);
  try {
    return await work(history);
  } finally {
    history.close();
  }
}

export type { CatalogDifference } from '../catalog/check.ts';
export type { History } from '../catalog/history.ts';
