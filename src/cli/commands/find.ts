/** `weightroom find`: artifacts and tensors of a store by words, dtype and shape. */
import { storeOutcome } from '../../host/stores.ts';
import { withCatalog } from '../../host/with-catalog.ts';
import { mostFindWords, type FindPage } from '../../contract/domain-schemas.ts';
import { inventory } from '../../store/inventory.ts';
import type { Command, Invocation } from '../command.ts';
import { count, shortKey } from '../documents.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { table } from '../table.ts';
import { wrongUse } from '../wrong-use.ts';

const mostLimit = 10_000;

export const command: Command = {
  positionals: [rootArgument, { name: 'word', required: false, many: true }],
  options: {
    dtype: { value: 'DTYPE', help: 'only tensors of this dtype, as bfloat16' },
    shape: { value: 'SHAPE', help: 'only tensors of this shape, as 4096x1024' },
    limit: { value: 'N', help: 'at most so many artifacts; 100 when not given' },
  },
  details: `Every word must occur in what the artifact is called (model, revision, component, representation, key, state) or
in the name of one of its tensors. What was read before is taken from the catalog, and only what changed is read.
With --quiet: the keys, one a line.`,
  example: 'weightroom find /var/lib/weights llama q_proj --dtype bfloat16',
  run,
};

type Found = Pick<FindPage, 'artifacts' | 'tensors' | 'rows'>;

async function run({ arguments: given, output, env }: Invocation): Promise<ExitCode> {
  const [root = '', ...words] = given.positionals;
  const question = {
    words: words.flatMap((word) => word.split(/\s+/)).filter((word) => word !== ''),
    dtype: given.text('dtype')?.replace(/^torch\./, '') ?? null,
    shape: given.text('shape') ?? null,
    offset: 0,
    limit: limitOf(given.text('limit')),
  };
  if (question.words.length > mostFindWords) throw wrongUse(`give at most ${mostFindWords} words.`);
  const domain = await openedStore(root);
  const found = valueOf(
    await storeOutcome('the store cannot be searched', () =>
      withCatalog(env, async (catalog): Promise<Found> => {
        await catalog.refresh(domain, await inventory(domain));
        const answer = await catalog.find(domain, question);
        if (catalog.problem !== null) output.note(catalog.problem);
        return answer;
      }),
    ),
  );
  output.result({
    document: documentOf(domain.root, found),
    text: textOf(found),
    bare: [...new Set(found.rows.map(({ key }) => key))].join('\n'),
  });
  return exitCodes.done;
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return 100;
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= mostLimit) return limit;
  throw wrongUse(`--limit must be a number from 1 to ${mostLimit}, not ${JSON.stringify(text)}.`);
}

function documentOf(root: string, { artifacts, tensors, rows }: Found): JsonDocument {
  return {
    root,
    artifacts,
    tensors,
    entries: rows.map((row) => ({
      key: row.key,
      state: row.state,
      name: row.name,
      bytes: row.bytes,
      model_id: row.model,
      component: row.component,
      representation: row.representation,
      dtype: row.dtype,
      tensor_parallel_size: row.tensorParallelSize,
      tensor_parallel_rank: row.tensorParallelRank,
      matching_tensors: row.matchingTensors,
      tensors: row.tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, bytes })),
    })),
  };
}

function textOf({ artifacts, tensors, rows }: Found): string {
  if (artifacts === 0) return 'Nothing matches.';
  const columns = [
    { title: 'KEY' },
    { title: 'STATE' },
    { title: 'SIZE', align: 'right' },
    { title: 'MODEL' },
    { title: 'TENSORS', align: 'right' },
    { title: 'FOR EXAMPLE' },
  ] as const;
  const lines = rows.map(({ key, state, bytes, model, component, matchingTensors, tensors: some }) => [
    shortKey(key),
    state,
    formatSize(bytes),
    model === null ? '?' : `${model} ${component ?? ''}`.trimEnd(),
    matchingTensors === 0 ? '' : String(matchingTensors),
    some[0] === undefined ? '' : `${some[0].name} ${some[0].dtype} [${some[0].shape.replaceAll('x', ', ')}]`,
  ]);
  const rest = artifacts > rows.length ? ` The first ${rows.length} are shown.` : '';
  return `${table(columns, lines)}\n\n${count(artifacts, 'artifact')}, ${count(tensors, 'matching tensor')}.${rest}`;
}
