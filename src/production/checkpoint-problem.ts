/**
 * What can be wrong with a checkpoint, as a list of values: an inspection finds all of them, so that nobody
 * repairs one file only to be told of the next. Every message says what, why and what to do.
 */
import type { SystemError } from '#native';
import { failure, type Detail, type Failure } from '../contract/failure.ts';
import { reasonOf } from '../store/faults.ts';

export type ProblemKind =
  | 'missing'
  | 'dangling-link'
  | 'no-permission'
  | 'unreadable'
  | 'not-a-regular-file'
  | 'empty-file'
  | 'not-safetensors'
  | 'no-weights'
  | 'ambiguous'
  | 'one-of-several-shards'
  | 'lfs-pointer'
  | 'index-broken'
  | 'index-unsafe-path'
  | 'shard-missing'
  | 'tensor-missing'
  | 'tensor-in-other-shard'
  | 'tensor-unnamed'
  | 'header-too-large'
  | 'header-broken'
  | 'dtype-unsupported';

export interface CheckpointProblem {
  readonly kind: ProblemKind;
  /** Relative to the checkpoint's folder; null where the folder itself is meant. */
  readonly file: string | null;
  readonly tensor: string | null;
  readonly message: string;
}

export function problem(
  kind: ProblemKind,
  file: string | null,
  message: string,
  tensor: string | null = null,
): CheckpointProblem {
  return { kind, file, tensor, message };
}

/** A system call on `file` (shown as `label`) failed. */
export function systemProblem(file: string | null, label: string, error: SystemError): CheckpointProblem {
  switch (error.code) {
    case 'ENOENT':
      return problem(
        'missing',
        file,
        `There is nothing at ${label}. Is the path right, is the disk mounted?`,
      );
    case 'EACCES':
    case 'EPERM':
      return problem(
        'no-permission',
        file,
        `${label} cannot be read: ${reasonOf(error)}. Give yourself read permission (chmod u+r, or ask the owner).`,
      );
    default:
      return problem('unreadable', file, `${label} cannot be read: ${reasonOf(error)}.`);
  }
}

/** How many problems travel in a failure; a wrong index can make one for every tensor. */
const maxListed = 100;

/** All problems of a checkpoint as the failure of whatever needed it. */
export function problemsFailure(path: string, problems: readonly CheckpointProblem[]): Failure {
  const [first] = problems;
  const more = problems.length - 1;
  const rest = more > 0 ? ` (and ${more} more ${more === 1 ? 'problem' : 'problems'})` : '';
  return failure(
    'canonical_loading',
    'canonical_source_failed',
    `The checkpoint at ${path} cannot be used: ${first?.message ?? 'it is not known why'}${rest}`,
    {
      details: {
        path,
        problem_count: problems.length,
        problems: problems.slice(0, maxListed) as unknown as Detail,
      },
    },
  );
}
