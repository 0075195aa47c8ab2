/** The catalog for one piece of work and no longer: what a command needs. */
import { Catalog } from '../catalog/catalog.ts';
import { defaultPaths, type Environment } from './default-paths.ts';

export async function withCatalog<T>(env: Environment, work: (catalog: Catalog) => Promise<T>): Promise<T> {
  const catalog = await Catalog.open(defaultPaths(env).catalog);
  try {
    return await work(catalog);
  } finally {
    catalog.close();
  }
}

export type { CatalogDifference } from '../catalog/check.ts';
