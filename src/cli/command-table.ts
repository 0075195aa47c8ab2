/**
 * The commands there are. Each is loaded when it is used, so that `--version` and a mistyped word don't wait
 * for the store engine.
 */
import type { Command } from './command.ts';

export interface CommandEntry {
  /** One word, or a group and a word in it. */
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: Command }>;
}

export const commandTable: readonly CommandEntry[] = [
  { name: 'start', summary: 'start Weightroom', load: () => import('./commands/start.ts') },
  {
    name: 'sample',
    summary: 'make a small checkpoint and a store, build one from the other, show the result',
    load: () => import('./commands/sample.ts'),
  },
  {
    name: 'serve',
    summary: 'open the desk in a browser, here or over SSH',
    load: () => import('./commands/serve.ts'),
  },
  {
    name: 'domain create',
    summary: 'make a store (a storage domain)',
    load: () => import('./commands/domain-create.ts'),
  },
  {
    name: 'domain show',
    summary: 'show what a store is, its policy and how full it is',
    load: () => import('./commands/domain-show.ts'),
  },
  {
    name: 'build',
    summary: 'build an artifact from a checkpoint, or find that it is there already',
    load: () => import('./commands/build.ts'),
  },
  { name: 'ls', summary: 'list everything in a store', load: () => import('./commands/ls.ts') },
  { name: 'show', summary: 'show one artifact', load: () => import('./commands/show.ts') },
  {
    name: 'resolve',
    summary: 'show what a loader that asks for an identity would do',
    load: () => import('./commands/resolve.ts'),
  },
  { name: 'verify', summary: 'check artifacts', load: () => import('./commands/verify.ts') },
  {
    name: 'locks',
    summary: 'show who holds which lock of a store',
    load: () => import('./commands/locks.ts'),
  },
  {
    name: 'remove',
    summary: 'remove an artifact that nobody uses',
    load: () => import('./commands/remove.ts'),
  },
  {
    name: 'find',
    summary: 'find artifacts and tensors by name, dtype or shape',
    load: () => import('./commands/find.ts'),
  },
  {
    name: 'index status',
    summary: 'show what the catalog knows of a store',
    load: () => import('./commands/index-status.ts'),
  },
  {
    name: 'index rebuild',
    summary: 'read a store anew into the catalog',
    load: () => import('./commands/index-rebuild.ts'),
  },
  {
    name: 'index check',
    summary: 'compare the catalog with the store',
    load: () => import('./commands/index-check.ts'),
  },
  {
    name: 'clean',
    summary: 'show what can go from a store and why, and remove it',
    load: () => import('./commands/clean.ts'),
  },
  {
    name: 'quarantine ls',
    summary: 'list what was taken out of service',
    load: () => import('./commands/quarantine-ls.ts'),
  },
  {
    name: 'quarantine restore',
    summary: 'put an entry back into service that is whole after all',
    load: () => import('./commands/quarantine-restore.ts'),
  },
  {
    name: 'quarantine rm',
    summary: 'remove entries that were taken out of service',
    load: () => import('./commands/quarantine-rm.ts'),
  },
  {
    name: 'gpu list',
    summary: 'list the GPUs and what is set for each',
    load: () => import('./commands/gpu-list.ts'),
  },
  {
    name: 'gpu mode',
    summary: 'switch registration on or off for a GPU, and limit it',
    load: () => import('./commands/gpu-mode.ts'),
  },
  {
    name: 'gpu flags',
    summary: 'print the vLLM-Omni flags for what is set',
    load: () => import('./commands/gpu-flags.ts'),
  },
  {
    name: 'register',
    summary: 'register an artifact with a GPU, and see where it hangs if it does',
    load: () => import('./commands/register.ts'),
  },
  {
    name: 'diagnose',
    summary: 'say why a registration, a process or a worker does not get on',
    load: () => import('./commands/diagnose.ts'),
  },
];

/** First words that take a second one. */
export const commandGroups: readonly string[] = [
  ...new Set(commandTable.flatMap(({ name }) => (name.includes(' ') ? [name.split(' ')[0] as string] : []))),
];
