/** Paths as people give them: absolute, or in the home folder by `~`. A page has no working directory. */
import { isAbsolute, join, resolve } from 'node:path';
import { failure, FailureError } from '../contract/failure.ts';

/** Throws FailureError (configuration) for a path that is neither. Touches no disk. */
export function absolutePath(text: string, home: string): string {
  const trimmed = text.trim();
  if (trimmed === '~' || trimmed.startsWith('~/')) return join(home, trimmed.slice(1));
  if (isAbsolute(trimmed)) return resolve(trimmed);
  throw new FailureError(
    failure(
      'configuration',
      'invalid_config',
      trimmed === ''
        ? 'A path is missing.'
        : `${JSON.stringify(trimmed)} is not a whole path: begin it with / or with ~ for your home folder.`,
    ),
  );
}
