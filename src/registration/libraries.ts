/**
 * Where the NVIDIA driver's libraries are looked for. They are found at run time and by name, so the same program
 * runs with and without a driver; an explicit path, which a setting or `--cuda-library` gives, is the only one.
 */
import type { LibraryAttempt } from '#native';
import { failure, type Failure } from '../contract/failure.ts';

const places = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib/wsl/lib'];

function candidates(name: string): string[] {
  return [name, ...places.map((place) => `${place}/${name}`)];
}

export function cudaLibraries(explicit: string | null): readonly string[] {
  return explicit === null ? candidates('libcuda.so.1') : [explicit];
}

/** The management library. An imitation of the driver can be both. */
export function managementLibraries(explicit: string | null): readonly string[] {
  const usual = candidates('libnvidia-ml.so.1');
  return explicit === null ? usual : [explicit, ...usual];
}

/** What was looked for, and why each was not it. */
export function noDriver(attempts: readonly LibraryAttempt[]): Failure {
  const looked = attempts.map(({ name, reason }) => `  ${name}: ${withoutName(reason, name)}`).join('\n');
  return failure(
    'configuration',
    'unsupported',
    `No NVIDIA driver found. Everything but registration works without one. Looked for:\n${looked}`,
    { details: { reason: 'no_driver', tried: attempts.map(({ name, reason }) => ({ name, reason })) } },
  );
}

function withoutName(reason: string, name: string): string {
  return reason.startsWith(`${name}: `) ? reason.slice(name.length + 2) : reason;
}
