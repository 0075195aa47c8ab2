/** The same session over every transport: the same answers, the same events, the same typed failures. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isContractProcedure, type AnyContractRouter } from '@orpc/contract';
import { expect, test } from 'vitest';
import { failureOf } from '../../../src/contract/call-failure.ts';
import { contract, type DeskClient } from '../../../src/contract/contract.ts';
import { failureValue } from '../../../src/contract/values.ts';
import { DeskScene, readUntil, transports, type Transport } from './desk-scene.ts';

interface Entry {
  readonly call: string;
  readonly outcome: unknown;
}

/** Calls every procedure, most of them once to succeed and once to fail, and notes what came back. */
class Session {
  readonly transcript: Entry[] = [];

  async note<T>(call: string, work: () => Promise<T>): Promise<T> {
    try {
      const answer = await work();
      this.transcript.push({ call, outcome: { answer } });
      return answer;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === null) throw error;
      this.transcript.push({ call, outcome: { failure } });
      return undefined as T;
    }
  }

  /** The kinds of events in their order, repetitions left out, and the last event. */
  async stream<T extends object>(
    call: string,
    open: () => Promise<AsyncIterable<T>>,
    isEnough?: (event: T) => boolean,
  ): Promise<T[]> {
    let events: T[] = [];
    await this.note(call, async () => {
      events = await readUntil(await open(), isEnough);
      const kinds = events.map((event) => ('type' in event ? event.type : 'change'));
      const isMilestone = (kind: unknown): boolean => kind !== 'progress' && kind !== 'state';
      return { kinds: kinds.filter(isMilestone), last: events.at(-1) };
    });
    return events;
  }
}

const nobodysKey = 'ab'.repeat(32);

async function run(client: DeskClient, scene: DeskScene): Promise<Entry[]> {
  const session = new Session();
  const { note, stream } = { note: session.note.bind(session), stream: session.stream.bind(session) };
  const { path: checkpoint } = scene.checkpoint();
  const root = await scene.store();

  await note('app.status', () => client.app.status());
  await note('settings.get', () => client.settings.get());
  await note('settings.update', () => client.settings.update({ theme: 'dark' }));
  await note('settings.update', () => client.settings.update({ theme: 'pink' as 'dark' }));
  await note('files.browse', () => client.files.browse({ path: scene.base }));
  await note('files.browse', () => client.files.browse({ path: scene.path('nowhere') }));

  await note('stores.list', () => client.stores.list());
  await note('stores.open', () => client.stores.open({ root: scene.path('home') }));
  await note('domain.locks', () => client.domain.locks({ root }));
  await note('stores.open', () => client.stores.open({ root }));
  await note('stores.check', () => client.stores.check({ path: scene.path('new'), admission: 'serialized' }));
  await note('stores.check', () => client.stores.check({ path: 'relative', maxStoreBytes: -1 }));
  const plan = { path: scene.path('new'), maxStoreBytes: 2 ** 30 };
  await note('stores.create', () => client.stores.create({ ...plan, maxStoreBytes: null }));
  await note('stores.create', () => client.stores.create(plan));
  await note('stores.create', () => client.stores.create({ ...plan, maxStoreBytes: 2 ** 31 }));
  await note('stores.forget', () => client.stores.forget({ root: scene.path('new') }));

  await note('builds.inspect', () => client.builds.inspect({ checkpoint, root }));
  await note('builds.inspect', () => client.builds.inspect({ checkpoint: scene.path('nowhere') }));
  await note('builds.start', () => client.builds.start({ root: scene.path('new'), checkpoint }));
  const started = await note('builds.start', () => client.builds.start({ root, checkpoint }));
  const events = await stream('builds.watch', () => client.builds.watch(started));
  const ended = events.at(-1);
  const key = ended?.type === 'result' ? (ended.build.result?.key ?? '') : '';
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  await stream('builds.watch', () => client.builds.watch({ id: 'unknown' }));
  await note('builds.cancel', () => client.builds.cancel(started));
  await note('builds.list', () => client.builds.list());
  await note('builds.dismiss', () => client.builds.dismiss(started));
  await note('builds.dismiss', () => client.builds.dismiss(started));

  await note('domain.inventory', () => client.domain.inventory({ root, search: key.slice(0, 12) }));
  await note('domain.inventory', () => client.domain.inventory({ root, limit: 501 }));
  await note('domain.summary', () => client.domain.summary({ root }));
  await note('domain.locks', () => client.domain.locks({ root }));
  await note('domain.overview', () => client.domain.overview({ root }));
  await note('domain.find', () => client.domain.find({ root, search: 'tiny LAYERS', dtype: 'bfloat16' }));
  await note('domain.find', () => client.domain.find({ root, search: 'word '.repeat(17) }));
  await stream(
    'domain.watch',
    () => client.domain.watch({ root }),
    () => true,
  );
  await note('artifact.show', () => client.artifact.show({ root, key }));
  await note('artifact.show', () => client.artifact.show({ root, key: nobodysKey }));
  await note('artifact.tensors', () => client.artifact.tensors({ root, key, search: 'layers', limit: 2 }));
  await note('artifact.tensors', () => client.artifact.tensors({ root, key: 'short' }));
  await stream('artifact.verify', () => client.artifact.verify({ root, key }));
  await stream('artifact.verify', () => client.artifact.verify({ root, key: nobodysKey }));
  await note('artifact.remove', () => client.artifact.remove({ root, key }));
  await note('artifact.remove', () => client.artifact.remove({ root, key }));

  // Paths that are there on no machine: the same answers with and without a GPU.
  await note('settings.update', () => client.settings.update({ cudaLibrary: scene.path('libcuda.so.1') }));
  const gpu = 'GPU-00000000-0000-0000-0000-000000000001';
  await note('gpus.list', () => client.gpus.list({}));
  await note('gpus.setMode', () => client.gpus.setMode({ uuid: gpu, mode: 'disabled', limitGib: 80 }));
  await note('gpus.setMode', () => client.gpus.setMode({ uuid: '0', mode: 'auto' }));
  await note('gpus.flags', () => client.gpus.flags({ uuids: [gpu] }));
  await note('registrations.start', () => client.registrations.start({ root, key, gpu }));
  await note('registrations.list', () => client.registrations.list());
  await stream('registrations.watch', () => client.registrations.watch({ id: 'unknown' }));
  await note('registrations.end', () => client.registrations.end({ id: 'unknown' }));
  await note('registrations.diagnose', () => client.registrations.diagnose({ id: 'unknown' }));
  await note('registrations.diagnose', () => client.registrations.diagnose({}));
  await note('registrations.bundle', () =>
    client.registrations.bundle({ id: 'unknown', path: scene.path('bundle.tar.gz') }),
  );
  await note('workers.list', () => client.workers.list());
  await stream('workers.followLog', () => client.workers.followLog({ path: scene.path('nowhere.log') }));
  leftover(root);
  await note('cleanup.plan', () => client.cleanup.plan({ root, keepLatest: 0 }));
  const cleaning = await note('cleanup.plan', () => client.cleanup.plan({ root }));
  const which = { root, planId: cleaning.id };
  await note('cleanup.entries', () => client.cleanup.entries({ ...which, group: 'dead-builds' }));
  await stream('cleanup.apply', () => client.cleanup.apply({ root, planId: 'ab'.repeat(16) }));
  await stream('cleanup.apply', () => client.cleanup.apply(which));
  await stream('cleanup.apply', () => client.cleanup.apply(which));
  await stream('cleanup.restore', () => client.cleanup.restore({ root, name: `${nobodysKey}.nothing.1` }));

  const sample = await note('sample.start', () => client.sample.start());
  await stream('builds.watch', () => client.builds.watch(sample));
  await stream(
    'app.events',
    () => client.app.events(),
    () => true,
  );
  await note('activity.list', () => client.activity.list());
  await note('activity.list', () => client.activity.list({ limit: 0 }));
  for (const { path, takesInput } of procedures(contract)) {
    if (takesInput) await note(path.join('.'), () => callAt(client, path)({ unknownField: true }));
  }
  return session.transcript;
}

/** What a build leaves that is killed. */
function leftover(root: string): void {
  const staged = join(root, 'tmp', `${nobodysKey}.1.${'cd'.repeat(16)}`);
  mkdirSync(staged);
  writeFileSync(join(staged, 'weights-00001.safetensors'), 'half of it');
}

/** What differs between two runs of anything: clocks, random names, where the test lies, what the disk has free. */
function comparable(transcript: readonly Entry[], scene: DeskScene): unknown {
  const text = JSON.stringify(transcript)
    .replaceAll(scene.base, '<base>')
    .replaceAll(
      /"(\w*[aA]tMs|goodUntilMs|gainedBytes|elapsedMs|freeBytes|filesystemFreeBytes|revision|pid)":-?[\d.]+/g,
      '"$1":0',
    )
    .replaceAll(/"(bytesPerSecond|secondsLeft)":[\d.]+/g, '"$1":null')
    .replaceAll(/("maxStoreBytes|max_store_bytes\\)":\d{11,}/g, '$1":0')
    .replaceAll(/"(id|planId)":"(?!abab)[0-9a-f]{32}"/g, '"$1":"<plan>"')
    .replaceAll(/"(id|buildId)":"[0-9-]{8}[0-9a-f-]*"/g, '"$1":"<id>"')
    .replaceAll(/"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"/g, '"<id>"')
    .replaceAll(/"uuid":"[0-9a-f]{32}"/g, '"uuid":"<uuid>"')
    .replaceAll(/"transport":"[a-z-]+"/g, '"transport":"<transport>"');
  return JSON.parse(text) as unknown;
}

interface Procedure {
  readonly path: readonly string[];
  readonly takesInput: boolean;
}

function procedures(router: AnyContractRouter, path: readonly string[] = []): Procedure[] {
  if (isContractProcedure(router)) return [{ path, takesInput: router['~orpc'].inputSchema !== undefined }];
  return Object.entries(router).flatMap(([name, part]) =>
    procedures(part as AnyContractRouter, [...path, name]),
  );
}

type AnyCall = (input: unknown) => Promise<unknown>;

function callAt(client: DeskClient, path: readonly string[]): AnyCall {
  return path.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], client) as AnyCall;
}

async function transcriptOver(transport: Transport): Promise<{ entries: Entry[]; comparable: unknown }> {
  const scene = new DeskScene();
  const desk = await scene.desk();
  const entries = await run(await desk.client(transport), scene);
  await desk.close();
  return { entries, comparable: comparable(entries, scene) };
}

test('a session gives the same answers, events and typed failures over every transport', async () => {
  const [inProcess, overPort, overSocket] = await Promise.all(
    transports.map(async (transport) => await transcriptOver(transport)),
  );
  const called = new Set(inProcess?.entries.map(({ call }) => call));
  const all = procedures(contract);
  expect([...called].sort()).toEqual(all.map(({ path }) => path.join('.')).sort());
  expect(overPort?.comparable).toEqual(inProcess?.comparable);
  expect(overSocket?.comparable).toEqual(inProcess?.comparable);
  const failures = (overSocket?.entries ?? []).flatMap(({ outcome }) =>
    typeof outcome === 'object' && outcome !== null && 'failure' in outcome ? [outcome.failure] : [],
  );
  expect(failures.length).toBeGreaterThan(10);
  const refused = new Set(
    overSocket?.entries.flatMap(({ call, outcome }) =>
      JSON.stringify(outcome).includes('unknownField') ? [call] : [],
    ),
  );
  const withInput = all.flatMap(({ path, takesInput }) => (takesInput ? [path.join('.')] : []));
  expect([...refused].sort()).toEqual(withInput.sort());
  for (const failure of failures) expect(failureValue.safeParse(failure).success).toBe(true);
});

test('every transport says which one it is', async () => {
  const desk = await new DeskScene().desk();
  for (const transport of transports) {
    const client = await desk.client(transport);
    expect(await client.app.status()).toMatchObject({ transport, pid: process.pid });
  }
});
