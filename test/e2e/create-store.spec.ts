/** Against the real host: a store is made, and each thing that keeps it from being made is told at its field. */
import { expect, test, type Page } from '@playwright/test';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { RealDesk } from './real-desk.ts';

let desk: RealDesk;

test.beforeEach(async ({ page }) => {
  desk = await RealDesk.start();
  await page.goto(desk.url);
  await page.getByRole('link', { name: 'Create a store' }).click();
});

test.afterEach(async () => await desk.stop());

async function expectRefusal(page: Page, path: string, message: string | RegExp): Promise<void> {
  await page.getByLabel('Folder').fill(path);
  await expect(page.locator('#path-notes .tone-bad')).toContainText(message);
  await expect(page.getByLabel('Folder')).toHaveAttribute('aria-invalid', 'true');
  await expect(page.getByRole('button', { name: 'Create store' })).toBeDisabled();
}

test('places where no store can be: each says why, and what to do', async ({ page }) => {
  await page.getByLabel('Limit (required)').fill('1 GiB');
  await expectRefusal(page, 'no/slash', 'begin it with / or with ~');
  await expectRefusal(
    page,
    '/',
    'The root of the file system cannot be a store. Choose a new or an empty folder.',
  );
  await expectRefusal(page, '~', 'is your home directory');
  await expectRefusal(page, '/proc/weights', 'lies on proc, which is not known to be a local file system');

  await writeFile(desk.path('file'), '');
  await expectRefusal(page, desk.path('file'), 'is not a folder');
  await expectRefusal(page, desk.path('file', 'below'), /is not a folder|cannot be looked at/);

  await mkdir(desk.path('other'));
  await writeFile(desk.path('other', 'thesis.tex'), '');
  await expectRefusal(page, desk.path('other'), 'is not empty and is not a store (it holds thesis.tex)');

  await mkdir(desk.path('open'));
  await chmod(desk.path('open'), 0o777);
  await expectRefusal(page, desk.path('open'), `Close it first: chmod go-w ${desk.path('open')}`);
});

test('a folder of somebody else', async ({ page }) => {
  await page.getByLabel('Limit (required)').fill('1 GiB');
  if (process.geteuid?.() === 0) {
    await mkdir(desk.path('foreign'));
    await chown(desk.path('foreign'), 65534, 65534);
    await expectRefusal(page, desk.path('foreign'), 'belongs to user 65534 and not to you');
  } else {
    await expectRefusal(page, '/usr/share', 'belongs to root and not to you');
  }
});

/** A mount of a share whose server never answers: every look at it would wait for ever. Null where we may not. */
async function mountDeadShare(place: string): Promise<ChildProcess | null> {
  const script = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd
if libc.mount(b"nas:/models", os.fsencode(sys.argv[1]), b"fuse.sshfs", 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
sys.stdin.read()
`;
  const child = spawn('python3', ['-c', script, place], { stdio: ['pipe', 'pipe', 'ignore'] });
  const isMounted = await Promise.race([
    once(child.stdout, 'data').then(() => true),
    once(child, 'exit').then(() => false),
  ]);
  return isMounted ? child : null;
}

test('a network share that does not answer is told from the mount table, and nothing waits for it', async ({
  page,
}) => {
  const share = desk.path('share');
  await mkdir(share);
  const server = await mountDeadShare(share);
  test.skip(server === null, 'this user may not mount');
  try {
    await page.getByLabel('Limit (required)').fill('1 GiB');
    await expectRefusal(page, `${share}/weights`, 'lies on fuse.sshfs, a network file system');
    await expect(page.locator('#path-notes .tone-bad')).toContainText('Choose a folder on a local disk');
    // The host is as awake as before.
    await page.getByLabel('Folder').fill(desk.path('store'));
    await expect(page.getByText('Everything is fine.')).toBeVisible();
  } finally {
    spawnSync('umount', ['-l', share]);
    server?.kill();
  }
});

test('a serialized store needs its limit, and gets exactly the policy that was shown', async ({ page }) => {
  const create = page.getByRole('button', { name: 'Create store' });
  const policy = page.getByLabel('Policy document', { exact: true });
  await page.getByLabel('Folder').fill(desk.path('store'));
  await expect(page.locator('#maxStoreBytes-notes')).toContainText(
    'Serialized admission needs a store limit: without one there is nothing that builds could overfill.',
  );
  await expect(create).toBeDisabled();
  await expect(page.getByText('will refuse to start')).toBeVisible();
  await page.getByLabel('Limit (required)').fill('many');
  await expect(page.locator('#maxStoreBytes-notes')).toContainText('not a size');
  await page.getByLabel('Limit (required)').fill('2 GiB');
  await expect(policy).toContainText('"build_admission":"serialized"');
  await expect(policy).toContainText('2147483648');
  const shown = await policy.innerText();
  await expect(create).toBeEnabled();
  await create.click();
  await expect(page.getByRole('heading', { level: 1, name: 'store', exact: true })).toBeVisible();
  await expect(page.getByText('Nothing is in this store yet.').first()).toBeVisible();
  expect(JSON.parse(await readFile(desk.path('store', 'domain-policy.json'), 'utf8'))).toEqual(
    JSON.parse(shown),
  );
});
