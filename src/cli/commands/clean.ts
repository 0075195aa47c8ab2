/** `weightroom clean`: shows what can go from a store and why; with --apply it goes. */
import { apply, type CleanupSummary, type EntryResult } from '../../cleanup/apply.ts';
import { cleanupGroups, defaultGroups, type CleanupGroup } from '../../cleanup/groups.ts';
import type { CleanupPlan, PlanOptions } from '../../cleanup/plan.ts';
import { planCleanup } from '../../host/cleaning.ts';
import { withHistory, type History } from '../../host/with-catalog.ts';
import { nearest, type Arguments } from '../arguments.ts';
import { planDocument, planText, runDocument, runText, troubleOf, worstOf } from '../cleanup-report.ts';
import { Interrupted, type Command, type Invocation } from '../command.ts';
import { count } from '../documents.ts';
import { parseAge } from '../durations.ts';
import { exitCodeOf, exitCodes, type ExitCode } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { formatSize } from '../sizes.ts';
import { openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { wrongUse } from '../wrong-use.ts';

/** Those that have a switch of their own, or belong to what is on by itself. */
const askable = cleanupGroups.filter((group) => group !== 'chosen' && group !== 'stray-markers');

export const command: Command = {
  positionals: [rootArgument],
  options: {
    apply: { help: 'remove it; without this nothing is changed' },
    include: { value: 'GROUP,...', help: 'groups to add; see below' },
    'older-than': { value: 'AGE', help: 'for `unused`: how long nobody was seen to use it (default 30d)' },
    'keep-latest': {
      value: 'N',
      help: 'for `superseded`: how many releases of each artifact stay (default 1)',
    },
  },
  details: `On by themselves, because nobody can use them: dead-builds, interrupted-cleanups, half-moved, quarantined, and
deny markers whose artifact is gone. Published artifacts go only when they are asked for with --include:
  denied      failed a check and are not served
  superseded  the same model, component, representation and layout is there at a newer revision or producer version
  unused      nobody was seen to use it for --older-than; needs a history of leases

What is being built or used stays, whoever does it, and nothing is waited for. With --quiet: the entries, one a
line. Exit code 4 where something was in use or changed while it was removed, 3 where something can't be removed.`,
  example: 'weightroom clean /var/lib/weights --include superseded --keep-latest 2 --apply',
  interruptible: true,
  run,
};

async function run(invocation: Invocation): Promise<ExitCode> {
  return await withHistory(invocation.env, (history) => clean(invocation, history));
}

async function clean({ arguments: given, output, signal }: Invocation, history: History): Promise<ExitCode> {
  const options = optionsOf(given);
  const domain = await openedStore(given.positional(0));
  const plan = valueOf(await planCleanup(domain, options, { now: Date.now, history }));
  if (!given.flag('apply')) {
    output.result({
      document: { ...planDocument(plan), applied: null, failure: null },
      text: planText(plan),
      bare: plan.entries.map(({ id }) => id).join('\n'),
    });
    return exitCodes.done;
  }
  const { results, summary } = await applied(plan, history, output, signal);
  remember(plan, summary, history);
  const worst = worstOf(results);
  const document = { ...planDocument(plan), applied: runDocument(results, summary), failure: worst };
  if (summary.isCancelled) {
    const left = count(summary.entriesLeft, 'entry', 'entries');
    throw new Interrupted(`Interrupted: ${left} stayed as they were. What went is gone.`, document);
  }
  output.result({
    document,
    text: runText(plan, results, summary),
    bare: results.flatMap(({ id, status }) => (status === 'removed' ? [id] : [])).join('\n'),
    problems: troubleOf(results),
  });
  return worst === null ? exitCodes.done : exitCodeOf(worst);
}

async function applied(
  plan: CleanupPlan,
  history: History,
  output: Output,
  signal: AbortSignal,
): Promise<{ results: EntryResult[]; summary: CleanupSummary }> {
  const events = valueOf(await apply(plan, { now: Date.now, history, signal }));
  const totalBytes = plan.entries.reduce((total, { bytes }) => total + bytes, 0);
  const results: EntryResult[] = [];
  let doneBytes = 0;
  for await (const event of events) {
    if (event.type === 'summary') return { results, summary: event.summary };
    results.push(event.result);
    doneBytes += event.result.removedBytes;
    output.progress({
      phase: `removed ${formatSize(doneBytes)}, entry ${event.done} of ${event.total}`,
      doneBytes,
      totalBytes,
      bytesPerSecond: null,
      secondsLeft: null,
    });
  }
  throw new Error('a cleanup ended without its summary');
}

function remember({ domain, entries }: CleanupPlan, summary: CleanupSummary, history: History): void {
  history.cleanedUp({
    id: summary.planId,
    domainUuid: domain.uuid,
    atMs: summary.endedAtMs,
    plannedBytes: entries.reduce((total, { bytes }) => total + bytes, 0),
    freedBytes: summary.gainedBytes,
    document: summary,
  });
}

function optionsOf(given: Arguments): PlanOptions {
  const groups = includedGroups(given.text('include'));
  const olderThan = given.text('older-than');
  const keepLatest = given.text('keep-latest');
  if (olderThan !== undefined && !groups.has('unused')) {
    throw wrongUse('--older-than is about unused artifacts: add --include unused.');
  }
  if (keepLatest !== undefined && !groups.has('superseded')) {
    throw wrongUse('--keep-latest is about superseded artifacts: add --include superseded.');
  }
  return {
    groups: [...groups],
    ...(olderThan === undefined ? {} : { unusedAfterMs: parseAge(olderThan, '--older-than') }),
    ...(keepLatest === undefined ? {} : { keepLatest: parseKept(keepLatest) }),
  };
}

function includedGroups(text: string | undefined): Set<CleanupGroup> {
  const groups = new Set<CleanupGroup>(defaultGroups);
  for (const word of text?.split(',') ?? []) {
    const group = askable.find((known) => known === word.trim());
    if (group === undefined) throw unknownGroup(word.trim());
    groups.add(group);
  }
  return groups;
}

function unknownGroup(word: string): Error {
  const near = nearest(word, askable);
  const hint = near === undefined ? `They are ${askable.join(', ')}.` : `Did you mean ${near}?`;
  return wrongUse(`there is no group ${JSON.stringify(word)}. ${hint}`);
}

function parseKept(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw wrongUse(`--keep-latest is a number of releases, 1 or more, not ${JSON.stringify(text)}.`);
}
