/**
 * Looking around on the disk for whoever has no native dialog: names, kinds and sizes, never contents. All of
 * it runs off the main thread, and a disk that does not answer is given up on.
 */
import type { Dirent } from 'node:fs';
import { access, readdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSystemError } from '#native';
import type { FolderEntry, FolderListing } from '../contract/app-schemas.ts';
import { failure, FailureError } from '../contract/failure.ts';
import { reasonOf } from '../store/faults.ts';
import { domainFile } from '../store/paths.ts';

const mostEntries = 2000;
/** Looking into every folder of a large one would take longer than anybody waits. */
const mostLookedInto = 200;
const answerWithinMs = 5000;

/** `path` is absolute. Throws FailureError. */
export async function browse(path: string): Promise<FolderListing> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new FailureError(silent(path))), answerWithinMs);
  });
  try {
    return await Promise.race([list(path), late]);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new FailureError(unreadable(path, reasonOf(error)));
  } finally {
    clearTimeout(timer);
  }
}

async function list(typed: string): Promise<FolderListing> {
  const path = await realpath(typed);
  const found = (await readdir(path, { withFileTypes: true })).filter(({ name }) => !name.startsWith('.'));
  const kinds = await Promise.all(found.map(async (entry) => ({ entry, kind: await kindOf(path, entry) })));
  const shown = kinds.flatMap(({ entry: { name }, kind }) => (kind === null ? [] : [{ name, kind }]));
  shown.sort((a, b) => Number(b.kind === 'folder') - Number(a.kind === 'folder') || byName(a.name, b.name));
  const listed = shown.slice(0, mostEntries);
  const entries = await Promise.all(listed.map(async (entry, index) => await entryOf(path, entry, index)));
  return {
    path,
    parent: path === '/' ? null : dirname(path),
    entries: entries.filter((entry) => entry !== null),
    truncated: shown.length > listed.length,
  };
}

type Kind = FolderEntry['kind'];

/** Null for what nobody would choose. A link is what it leads to. */
async function kindOf(folder: string, entry: Dirent): Promise<Kind | null> {
  const target = entry.isSymbolicLink() ? await stat(join(folder, entry.name)).catch(() => null) : entry;
  if (target === null) return null;
  if (target.isDirectory()) return 'folder';
  return target.isFile() && /\.(safetensors|json)$/.test(entry.name) ? 'file' : null;
}

async function entryOf(
  folder: string,
  { name, kind }: { name: string; kind: Kind },
  index: number,
): Promise<FolderEntry | null> {
  const path = join(folder, name);
  const found = await stat(path).catch(() => null);
  if (found === null) return null;
  return {
    name,
    path,
    kind,
    looksLike: kind === 'folder' && index < mostLookedInto ? await looksLike(path) : null,
    sizeBytes: kind === 'file' ? found.size : null,
    modifiedAtMs: found.mtimeMs,
  };
}

const signsOfCheckpoint = [
  'model.safetensors.index.json',
  'model.safetensors',
  'diffusion_pytorch_model.safetensors.index.json',
  'diffusion_pytorch_model.safetensors',
  'model_index.json',
  'config.json',
];

async function looksLike(path: string): Promise<FolderEntry['looksLike']> {
  if (await exists(join(path, domainFile))) return 'store';
  const signs = await Promise.all(signsOfCheckpoint.map(async (name) => await exists(join(path, name))));
  return signs.includes(true) ? 'checkpoint' : null;
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

const natural = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

function byName(a: string, b: string): number {
  return natural.compare(a, b);
}

function unreadable(path: string, why: string): ReturnType<typeof failure> {
  return failure('configuration', 'invalid_config', `${path} cannot be listed: ${why}.`, {
    details: { path },
  });
}

function silent(path: string): ReturnType<typeof failure> {
  return failure(
    'configuration',
    'invalid_config',
    `${path} did not answer within ${answerWithinMs / 1000} s: is it a network share or a disk that is gone?`,
    { retryable: true, details: { path } },
  );
}
