/** `weightroom sample`: the main job with nothing to prepare. */
import { FailureError } from '../../contract/failure.ts';
import { defaultSampleBytes, runSample, type Sample } from '../../host/sample.ts';
import { buildDocument, builtText, cancelledWords, whoHitsIt } from '../build-report.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { domainDocument, domainFields } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import { formatSize, parseSize } from '../sizes.ts';
import { valueOf } from '../store-arguments.ts';
import { fields } from '../table.ts';

export const command: Command = {
  positionals: [],
  options: { size: { value: 'SIZE', help: 'about how large the checkpoint is (default 64MiB)' } },
  details: `Makes a small sharded checkpoint and a serialized store under the XDG data directory (by default
~/.local/share/weightroom), builds the checkpoint as bf16 and shows what came of it. Run again it finds what
is there. To undo it, remove the artifact with \`weightroom remove\`, then delete that folder.`,
  example: 'weightroom sample --size 256MiB',
  interruptible: true,
  run,
};

async function run({ arguments: given, output, env, signal }: Invocation): Promise<ExitCode> {
  const size = given.text('size');
  const sizeBytes = size === undefined ? defaultSampleBytes : parseSize(size, '--size');
  const sample = await uninterrupted(signal, async () =>
    valueOf(
      await runSample(env, sizeBytes, {
        signal,
        onProgress: (progress) => output.progress(progress),
        onWarning: (message) => output.note(`Note: ${message}`),
      }),
    ),
  );
  const { build, leftBehind } = sample;
  if (build.status === 'cancelled') throw new Interrupted(cancelledWords(leftBehind), documentOf(sample));
  if (build.failure !== null) throw new FailureError(build.failure);
  output.result({
    document: documentOf(sample),
    text: textOf(sample, spelling(env)),
    bare: build.key ?? '',
  });
  return exitCodes.done;
}

async function uninterrupted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted && error === signal.reason) throw new Interrupted('Interrupted. Nothing was built.');
    throw error;
  }
}

function documentOf({ checkpoint, store, build }: Sample): JsonDocument {
  return {
    checkpoint: {
      path: checkpoint.path,
      existing: checkpoint.existing,
      tensor_bytes: checkpoint.tensorBytes,
    },
    domain: { ...domainDocument(store.domain), existing: store.existing },
    build: buildDocument(build),
    failure: build.failure,
  };
}

/** As the reader can type it: npm says that it started us, and then the command is not on the PATH. */
function spelling(env: Invocation['env']): string {
  return env['npm_execpath'] === undefined ? 'weightroom' : 'npx weightroom';
}

function textOf({ checkpoint, store, build }: Sample, weightroom: string): string {
  const { root } = store.domain;
  return [
    `Checkpoint (${checkpoint.existing ? 'was there already' : 'made now'}): ${formatSize(checkpoint.tensorBytes)} at ${checkpoint.path}`,
    `Store (${store.existing ? 'was there already' : 'made now'}):`,
    fields(domainFields(store.domain), '  '),
    builtText(build),
    whoHitsIt,
    '',
    'Look around:',
    `  ${weightroom} ls ${root}`,
    `  ${weightroom} show ${root} ${build.key?.slice(0, 12) ?? ''}`,
    `  ${weightroom} verify ${root} --full`,
  ].join('\n');
}
