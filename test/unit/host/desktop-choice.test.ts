/** Which of the two doors `weightroom start` opens, and what it says where the sandbox can't start. */
import { describe, expect, it } from 'vitest';
import { chooseDesktop, type Machine } from '../../../src/host/desktop-choice.ts';

const installed: Machine = {
  uid: 1000,
  installation: '/opt/weightroom',
  read: () => null,
  exists: () => true,
  isSetuidRoot: () => false,
};
const display = { DISPLAY: ':0' };

describe('the desktop app', () => {
  it('is started where its program is, by what the environment names first', () => {
    expect(chooseDesktop(display, installed)).toMatchObject({
      kind: 'desktop',
      binary: '/opt/weightroom/node_modules/electron/dist/electron',
      main: '/opt/weightroom/electron/main.ts',
    });
    const env = { ...display, ELECTRON_OVERRIDE_DIST_PATH: '/usr/lib/electron' };
    expect(chooseDesktop(env, installed)).toMatchObject({ binary: '/usr/lib/electron/electron' });
  });

  it('is started where the kernel restricts namespaces but the helper has what it needs', () => {
    const machine = {
      ...installed,
      read: () => '1\n',
      isSetuidRoot: (path: string) => /chrome-sandbox$/.test(path),
    };
    expect(chooseDesktop(display, machine).kind).toBe('desktop');
  });
});

describe('the browser, with the reason and what would change it', () => {
  it('without the program', () => {
    expect(chooseDesktop(display, { ...installed, exists: () => false })).toMatchObject({
      kind: 'browser',
      why: expect.stringContaining('not installed') as unknown,
      advice: [expect.stringContaining('install-electron')],
    });
  });

  it('without a display', () => {
    expect(chooseDesktop({ DISPLAY: '' }, installed)).toMatchObject({
      kind: 'browser',
      why: expect.stringContaining('no display') as unknown,
    });
  });

  it('as root', () => {
    expect(chooseDesktop(display, { ...installed, uid: 0 })).toMatchObject({
      kind: 'browser',
      why: expect.stringContaining('root') as unknown,
    });
  });

  it.each([
    ['/proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1', 'AppArmor'],
    ['/proc/sys/kernel/unprivileged_userns_clone', '0', 'only root'],
    ['/proc/sys/user/max_user_namespaces', '0', 'nobody'],
  ])('where %s is %s', (path, value, words) => {
    const read = (asked: string): string | null => (asked === path ? `${value}\n` : null);
    const choice = chooseDesktop(display, { ...installed, read });
    expect(choice).toMatchObject({ kind: 'browser', why: expect.stringContaining(words) as unknown });
    const advice = choice.kind === 'browser' ? choice.advice.join('\n') : '';
    expect(advice).toContain('chmod 4755');
    expect(advice).not.toContain('--no-sandbox');
  });
});
