/** `weightroom serve`: the desk in a browser, here or at the end of an SSH tunnel. */
import { buildAdvice } from '../../host/browser-host.ts';
import { hasDisplay } from '../../host/browser-opening.ts';
import { serveDesk, type ServedDesk } from '../../host/serving.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { wrongUse } from '../wrong-use.ts';

export const command: Command = {
  positionals: [],
  options: {
    port: {
      value: 'N',
      help: 'where to listen on 127.0.0.1 (default 7411, or any where that is taken; 0: any)',
    },
    open: { help: 'open it in the default browser' },
  },
  details: `Prints the address first, and serves until Ctrl+C. The address has a token in it: whoever has it can do here
what you can. Only programs of this machine reach it; from another one, tunnel the port:
  ssh -L 7411:127.0.0.1:7411 workstation
A second \`weightroom serve\` prints the address of the first. Ending it cancels the builds that it runs.
With --quiet: the address.`,
  example: 'weightroom serve --open',
  interruptible: true,
  run: async (invocation) => {
    const { arguments: given } = invocation;
    const port = given.text('port');
    return await serve(invocation, {
      port: port === undefined ? null : parsePort(port),
      opens: given.flag('open'),
    });
  },
};

export interface ServeOptions {
  /** Null: the usual one, or any. */
  readonly port: number | null;
  /** In the default browser, where there is a display. */
  readonly opens: boolean;
}

/** Prints the address and serves until the command is interrupted. */
export async function serve(
  { output, env, signal }: Invocation,
  { port, opens }: ServeOptions,
): Promise<ExitCode> {
  const serving = await serveDesk({ env, port });
  if (serving.kind === 'other') {
    const { url, port: otherPort, pid } = serving.instance;
    printAddress(output, { url, port: otherPort, pid }, `It runs already (process ${pid}): ${url}`);
    return exitCodes.done;
  }
  const { desk } = serving;
  try {
    const { url } = desk;
    printAddress(
      output,
      { url, port: desk.port, pid: process.pid },
      `Weightroom is at ${url}\nCtrl+C ends it.`,
    );
    if (!desk.hasPages) output.note(buildAdvice);
    if (opens) await open(desk, env, output);
    await fired(signal);
  } finally {
    await desk.close();
  }
  return exitCodes.done;
}

function printAddress(
  output: Output,
  { url, port, pid }: { url: string; port: number; pid: number },
  text: string,
): void {
  output.result({ document: { url, port, pid }, text, bare: url });
}

async function open(desk: ServedDesk, env: Invocation['env'], output: Output): Promise<void> {
  if (!hasDisplay(env)) {
    output.note('There is no display here to open it on: use the address above in a browser.');
    return;
  }
  await desk.openInBrowser(() => output.note('No browser could be started: use the address above.'));
}

async function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function parsePort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65535) return port;
  throw wrongUse(`--port takes a number from 0 to 65535, not ${JSON.stringify(text)}.`);
}
