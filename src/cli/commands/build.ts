/** `weightroom build`: from a checkpoint to a published artifact, in a process of its own. */
import { buildArtifact, type WatchedBuild } from '../../host/building.ts';
import { openStore } from '../../host/stores.ts';
import { representationNames, type RepresentationName } from '../../production/representation.ts';
import { parseSeconds, type Arguments } from '../arguments.ts';
import {
  buildDocument,
  builtText,
  cancelledWords,
  endedBefore,
  interruptedFailure,
  whoHitsIt,
  type BuildEnd,
} from '../build-report.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { wrongUse } from '../wrong-use.ts';

const name = 'build';

export const command: Command = {
  positionals: [{ name: 'checkpoint', required: true }],
  options: {
    domain: { value: 'ROOT', help: 'the store to build into (needed)' },
    representation: {
      value: 'HOW',
      choices: representationNames,
      help: 'preserve: bytes as they are (default); bf16: float32 and float16 cast',
    },
    component: { value: 'NAME', help: 'which part of a model this is (default model)' },
    'model-id': { value: 'ID', help: 'default: from the Hub snapshot, config.json or the folder' },
    revision: { value: 'R', help: 'default: from the Hub snapshot' },
    full: {
      help: 'an artifact that is there counts only if every byte of it is right; else it is built anew',
    },
    timeout: { value: 'SECONDS', help: 'the longest wait for others who build (default: no limit)' },
  },
  details: `The checkpoint is a Hugging Face folder, its index, or its only .safetensors file. Everything that is wrong
with it is found before anything is built; then its weights are read once to know which artifact they are, also
for one that is there already. Ctrl+C cancels and leaves nothing behind.
With --quiet: the key.

${whoHitsIt}`,
  example: 'weightroom build ./Llama-3.2-1B --domain /var/lib/weights --representation bf16',
  interruptible: true,
  run,
};

async function run({ arguments: given, output, signal }: Invocation): Promise<ExitCode> {
  const root = given.text('domain');
  if (root === undefined) throw wrongUse('--domain ROOT is missing: the store to build into.');
  const request = requestOf(given);
  const domain = await openStore(root);
  if (!domain.ok) return report(endedBefore(domain.failure), output);
  const watched = await buildArtifact(domain.value, request, {
    signal,
    onProgress: (progress) => output.progress(progress),
    onWarning: (message) => output.note(`Note: ${message}`),
  });
  return watched.result.status === 'cancelled'
    ? reportCancelled(watched, output)
    : report(watched.result, output);
}

function requestOf(given: Arguments): Parameters<typeof buildArtifact>[1] {
  const timeout = given.text('timeout');
  return {
    checkpoint: given.positional(0),
    representation: (given.text('representation') ?? 'preserve') as RepresentationName,
    component: given.text('component') ?? null,
    modelId: given.text('model-id') ?? null,
    revision: given.text('revision') ?? null,
    validation: given.flag('full') ? 'full_checksum' : 'manifest_and_metadata',
    timeoutMs: timeout === undefined ? null : parseSeconds(timeout, '--timeout') * 1000,
  };
}

function report(end: BuildEnd, output: Output): ExitCode {
  const { failure, key } = end;
  const document = buildDocument(end);
  if (failure !== null) {
    output.failure(failure, name, document);
    return exitCodeOf(failure);
  }
  output.result({ document, text: `${builtText(end)}\n${whoHitsIt}`, bare: key ?? '' });
  return exitCodes.done;
}

function reportCancelled({ result, leftBehind }: WatchedBuild, output: Output): ExitCode {
  const failure = interruptedFailure(cancelledWords(leftBehind));
  output.failure(failure, name, buildDocument({ ...result, failure }));
  return exitCodes.interrupted;
}
