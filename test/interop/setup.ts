/** Vitest's global set-up of the interop suite: makes the Python environment and says what runs in it. */
import { describePython, ensurePython } from './environment.ts';

export default async function setup(): Promise<void> {
  console.log(describePython(await ensurePython()));
}
