/** Writing what a diagnosis found into a redacted archive. */
import { userInfo } from 'node:os';
import { isSystemError } from '#native';
import { failure, FailureError } from '../contract/failure.ts';
import { writeBundle } from '../registration/bundle.ts';
import type { WorkerState } from '../registration/worker-log.ts';
import { homeOf, type Environment } from './default-paths.ts';
import type { DiagnosedSession } from './diagnosing.ts';

/** Throws FailureError where it can't be written or is there already. */
export async function bundleDiagnosis(
  path: string,
  found: DiagnosedSession,
  { env, workers = [], flags = [] }: BundleSurroundings,
): Promise<void> {
  const { kernel } = found.full;
  const content = {
    title: 'Weightroom: diagnosis of a registration',
    versions: { node: process.versions.node, kernel: kernel.release, driver: kernel.driver },
    flags,
    findings: found.findings,
    evidence: found.full,
    record: found.record,
    workers,
  };
  try {
    await writeBundle(path, content, { home: homeOf(env), user: userInfo().username });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new FailureError(
      failure('configuration', 'invalid_config', `The bundle cannot be written: ${error.message}`),
    );
  }
}

export interface BundleSurroundings {
  readonly env: Environment;
  readonly workers?: readonly WorkerState[];
  /** Of a launch of vLLM-Omni, for what is set. */
  readonly flags?: readonly string[];
}
