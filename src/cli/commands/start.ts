/** `weightroom start`: the way in for a newcomer. The desktop app where it can run, a browser otherwise. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chooseDesktop } from '../../host/desktop-choice.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { serve } from './serve.ts';

export const command: Command = {
  positionals: [],
  options: {},
  details: `Opens the desktop app where Electron's program is installed and there is a display. Otherwise it serves the
same pages to the default browser, or prints their address, as \`weightroom serve --open\` does; and it says
which of the two, and why.`,
  example: 'weightroom start',
  interruptible: true,
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  const { output, env, signal } = invocation;
  const choice = chooseDesktop(env);
  output.note(choice.why);
  if (choice.kind === 'browser') {
    for (const line of choice.advice) output.note(line);
    return await serve(invocation, { port: null, opens: true });
  }
  // The one that runs this process as plain Node must not be handed on to the app.
  const { ELECTRON_RUN_AS_NODE: _, ...appEnv } = env;
  const app = spawn(choice.binary, [choice.main], { stdio: 'inherit', env: appEnv });
  signal.addEventListener('abort', () => app.kill('SIGTERM'), { once: true });
  const ended = await Promise.race([
    once(app, 'exit').then(([code, name]: unknown[]) =>
      code === 0 ? null : `it ended with ${String(code ?? name)}`,
    ),
    once(app, 'error').then(([error]: unknown[]) => (error as Error).message),
  ]);
  if (ended === null || signal.aborted) return exitCodes.done;
  output.note(`The desktop app does not work here: ${ended}. The pages are served to a browser instead.`);
  return await serve(invocation, { port: null, opens: true });
}
