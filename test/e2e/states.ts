/**
 * Every page in every state that it was designed for, each with what is on screen when all of it is. The specs
 * that go over all of them (axe, the keyboard) and the pictures share this list.
 */
import type { BrowserContextOptions, Locator, Page } from '@playwright/test';
import type { VerificationEvent } from '../../src/contract/artifact-schemas.ts';
import { failure } from '../../src/contract/failure.ts';
import { artifact } from './fake/artifacts.ts';
import { busyDesk } from './fake/busy-desk.ts';
import { FakeDesk } from './fake/desk.ts';
import { serveFake } from './fake/host.ts';
import { storeOf } from './fake/stores.ts';
import { gib, keyOf } from './fake/units.ts';

export interface OpenDesk {
  readonly desk: FakeDesk;
  /** Ends the host; the second time it does nothing. */
  readonly close: () => Promise<void>;
}

export interface PageState {
  readonly hash: string;
  /** A busy one where it says nothing. */
  readonly desk?: () => FakeDesk;
  readonly isOutside?: boolean;
  /** Only another part of a page that is in this list already. */
  readonly isScrolled?: boolean;
  readonly ready: (page: Page) => readonly Locator[];
  /** What somebody does, or what happens, before the state is reached. */
  readonly act?: (page: Page, open: OpenDesk) => Promise<void>;
}

export const calm: BrowserContextOptions = { reducedMotion: 'reduce' };

const root = '/data/weights';
const store = `#/store/${encodeURIComponent(root)}`;
const artifactAt = (n: number): string => `${store}/artifact/${keyOf(`artifact ${n}`)}`;
const checkpointAt = (path: string): string => `#/builds/new?checkpoint=${encodeURIComponent(path)}`;

const heading = (name: string | RegExp) => (page: Page) => [page.getByRole('heading', { name })];
const text = (words: string | RegExp) => (page: Page) => [page.getByText(words).first()];
const storeIsThere = (page: Page): Locator[] => [
  page.locator('.windowed-frame tr[aria-rowindex="2"] a'),
  page.getByRole('img', { name: /^Bytes by model/ }),
  page.getByRole('heading', { name: 'Lock holders' }),
];
const artifactIsThere = (page: Page): Locator[] => [
  page.locator('.windowed-frame tr[aria-rowindex="2"] button'),
  page.getByRole('heading', { name: 'Open in Python' }),
];

function emptyStore(): FakeDesk {
  const desk = new FakeDesk();
  desk.stores = [{ store: storeOf(root, [], Date.now(), { limitGib: 512 }), rows: [] }];
  desk.locks = { measuredAtMs: Date.now(), held: [], free: 2 };
  return desk;
}

function silentAbout(...calls: readonly string[]): () => FakeDesk {
  return () => {
    const desk = busyDesk();
    for (const call of calls) desk.silent.add(call);
    return desk;
  };
}

function unreadable(): FakeDesk {
  const desk = busyDesk();
  const why = failure('domain', 'domain_unavailable', `${root} could not be read: the disk gave an error.`, {
    retryable: true,
    details: { errno: 'EIO' },
  });
  for (const call of ['domain.inventory', 'domain.summary', 'domain.locks']) desk.failures.set(call, why);
  return desk;
}

function partlyKnown(): FakeDesk {
  const desk = busyDesk();
  desk.artifact = (at, row) => ({
    ...artifact(at, row, []),
    identity: null,
    contents: null,
    problem: 'The manifest ends before it is complete: what is in the artifact is not known.',
  });
  return desk;
}

function damaged(): FakeDesk {
  const desk = busyDesk();
  const message = 'weights-00003.safetensors is not what the manifest says: 1 of 4 files differs.';
  desk.verification = (key) => [
    {
      type: 'result',
      result: {
        key,
        status: 'invalid',
        level: 'full_checksum',
        bytes: 20 * gib,
        elapsedMs: 9500,
        atMs: Date.now(),
        failure: failure('validation', 'checksum_mismatch', message),
      },
    },
  ];
  return desk;
}

/** By the name of its picture. */
export const pageStates: Readonly<Record<string, PageState>> = {
  workstation: { hash: '#/', ready: heading('Running now') },
  'workstation-empty': {
    hash: '#/',
    desk: () => new FakeDesk(),
    ready: heading('No store is known yet'),
  },
  'workstation-loading': {
    hash: '#/',
    desk: silentAbout('stores.list'),
    ready: text('Looking at the stores…'),
  },
  'connection-lost': {
    hash: '#/',
    ready: heading('Running now'),
    act: async (page, { close }) => {
      await close();
      await page.getByText('The connection to Weightroom is lost.').waitFor();
      await page.getByText('Old: as of').first().waitFor();
    },
  },
  'sign-in': { hash: '', isOutside: true, ready: heading('This address needs its token') },
  store: { hash: store, ready: storeIsThere },
  'store-table': {
    isScrolled: true,
    hash: store,
    ready: storeIsThere,
    act: async (page) => await page.getByRole('heading', { name: 'Artifacts' }).scrollIntoViewIfNeeded(),
  },
  'store-nothing-found': {
    hash: store,
    ready: storeIsThere,
    act: async (page) => {
      await page.getByRole('searchbox', { name: 'Search artifacts' }).fill('no such model');
      await page.getByText('Nothing matches.').waitFor();
    },
  },
  'store-empty': { hash: store, desk: emptyStore, ready: text('Nothing is in this store yet.') },
  'store-loading': {
    hash: store,
    desk: silentAbout('domain.inventory', 'domain.summary', 'domain.locks'),
    ready: text('Reading the manifests…'),
  },
  'store-unreadable': { hash: store, desk: unreadable, ready: text('the disk gave an error') },
  'store-offline': {
    hash: `#/store/${encodeURIComponent('/mnt/nvme2/weights-old')}`,
    ready: text('This store is offline'),
  },
  'store-unknown': {
    hash: `#/store/${encodeURIComponent('/nowhere')}`,
    ready: text('This store is not among the known ones.'),
  },
  artifact: { hash: artifactAt(1), ready: artifactIsThere },
  'artifact-json': {
    hash: artifactAt(1),
    ready: artifactIsThere,
    act: async (page) => await page.getByRole('button', { name: 'JSON', exact: true }).click(),
  },
  'artifact-verifying': {
    hash: artifactAt(2),
    ready: artifactIsThere,
    act: async (page, { desk }) => {
      desk.verification = verifyingForEver;
      await page.getByRole('button', { name: 'Verify now' }).click();
      await page.getByText('GiB/s').first().waitFor();
    },
  },
  'artifact-damaged': {
    hash: artifactAt(2),
    desk: damaged,
    ready: artifactIsThere,
    act: async (page) => {
      await page.getByRole('button', { name: 'Verify now' }).click();
      await page.getByText('1 of 4 files differs').waitFor();
    },
  },
  'artifact-tensors': {
    isScrolled: true,
    hash: artifactAt(2),
    ready: artifactIsThere,
    act: async (page) => await page.getByRole('heading', { name: 'Tensors' }).scrollIntoViewIfNeeded(),
  },
  'artifact-remove': {
    hash: artifactAt(2),
    ready: artifactIsThere,
    act: async (page) => {
      await page.getByRole('button', { name: 'Remove…' }).click();
      await page.getByRole('dialog').waitFor();
    },
  },
  'artifact-gone': {
    hash: artifactAt(2),
    ready: artifactIsThere,
    act: async (page, { desk }) => {
      const [first] = desk.stores;
      if (first !== undefined) {
        first.rows = first.rows.filter(({ key }) => key !== keyOf('artifact 2'));
      }
      desk.touch();
      await page.getByText('This artifact was removed').waitFor();
    },
  },
  'artifact-partial': {
    hash: artifactAt(2),
    desk: partlyKnown,
    ready: text('The manifest ends before'),
  },
  'artifact-missing': {
    hash: `${store}/artifact/${keyOf('none')}`,
    ready: text('The store has no such artifact'),
  },
  'artifact-loading': {
    hash: artifactAt(1),
    desk: silentAbout('artifact.show'),
    ready: text('Reading the manifest…'),
  },
  'create-store': {
    hash: '#/create-store',
    ready: heading('Create a store'),
    act: async (page) => {
      await page.getByLabel('Folder').fill('/data/new-weights');
      await page.getByText('Something above has to be put right first.').waitFor();
    },
  },
  'create-store-fine': {
    hash: '#/create-store',
    ready: heading('Create a store'),
    act: async (page) => {
      await page.getByLabel('Folder').fill('/data/new-weights');
      await page.getByLabel('Limit (required)').fill('192 GiB');
      await page.getByText('Everything is fine.').waitFor();
    },
  },
  'open-store': { hash: '#/open-store', ready: heading('Open a store') },
  'open-store-refused': {
    hash: '#/open-store',
    ready: heading('Open a store'),
    act: async (page) => {
      await page.getByLabel('Folder').fill('/nowhere');
      await page.getByRole('button', { name: 'Open', exact: true }).click();
      await page.getByText('/nowhere is not a known store.').waitFor();
    },
  },
  builds: { hash: '#/builds', ready: heading('Ended') },
  'builds-empty': {
    hash: '#/builds',
    desk: () => new FakeDesk(),
    ready: text('Nothing is being built'),
  },
  'builds-loading': {
    hash: '#/builds',
    desk: silentAbout('builds.list'),
    ready: text('Looking what is being built…'),
  },
  'new-build': { hash: checkpointAt('/models/Qwen3-Omni-30B-A3B'), ready: text('It fits') },
  'new-build-problem': {
    hash: checkpointAt('/models/broken-model'),
    ready: text('ends before its last tensor does'),
  },
  'new-build-no-store': {
    hash: '#/builds/new',
    desk: () => new FakeDesk(),
    ready: text('There is no store to build into.'),
  },
  'folder-browser': {
    hash: '#/builds/new',
    ready: heading('1. Checkpoint'),
    act: async (page) => {
      await page.getByRole('button', { name: 'Browse…' }).click();
      await page.getByRole('button', { name: 'notes' }).waitFor();
    },
  },
  activity: { hash: '#/activity', ready: text('weights-old went offline.') },
  'activity-empty': {
    hash: '#/activity',
    desk: () => new FakeDesk(),
    ready: text('Nothing has happened yet.'),
  },
  settings: { hash: '#/settings', ready: heading('About') },
  palette: {
    hash: '#/',
    ready: heading('Running now'),
    act: async (page) => {
      await page.keyboard.press('Control+k');
      await page.keyboard.type('flux');
      await page.getByRole('option').nth(3).waitFor();
    },
  },
  'no-such-page': { hash: '#/nowhere/at/all', ready: heading('There is no such page') },
};

export function stateCalled(name: string): PageState {
  const state = pageStates[name];
  if (state === undefined) throw new Error(`no state is called ${name}`);
  return state;
}

/** As far as it ever comes, so that what is looked at stays. */
function* verifyingForEver(): Generator<VerificationEvent> {
  for (;;) {
    yield {
      type: 'progress',
      doneBytes: 7 * gib,
      totalBytes: 20 * gib,
      bytesPerSecond: 2.1 * gib,
      secondsLeft: 6,
    };
  }
}

/** Opens the page in that state; the host is to be closed by whoever asked. */
export async function openState(page: Page, state: PageState): Promise<OpenDesk> {
  const desk = (state.desk ?? busyDesk)();
  const host = await serveFake(desk);
  let closing: Promise<void> | null = null;
  const open: OpenDesk = { desk, close: () => (closing ??= host.close()) };
  try {
    await page.goto(state.isOutside === true ? host.url.replace(/#.*/, '') : host.url);
    await page.getByRole('heading', { level: 1 }).waitFor();
    if (state.isOutside !== true) await page.evaluate(`location.hash = ${JSON.stringify(state.hash)}`);
    for (const locator of state.ready(page)) await locator.waitFor();
    await state.act?.(page, open);
    return open;
  } catch (error) {
    await open.close();
    throw error;
  }
}
