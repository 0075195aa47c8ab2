/** How the tests start Debian's Chromium: see toolchain.md. */
export const chromiumOptions = {
  executablePath: process.env['WEIGHTROOM_CHROMIUM'] ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};
