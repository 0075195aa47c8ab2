/** Stands in for the build process and misbehaves as its argument says. */
import { writeSync } from 'node:fs';

switch (process.argv[2]) {
  case 'dies':
    writeSync(1, 'a library prints to stdout\n');
    writeSync(2, 'first line\nout of luck\n');
    process.exit(3);
    break;
  case 'stays':
    process.on('SIGTERM', () => writeSync(2, 'not yet\n'));
    writeSync(1, `${JSON.stringify({ type: 'phase', phase: 'producing' })}\n`);
    setInterval(() => undefined, 1000);
    break;
  default:
    process.abort();
}
