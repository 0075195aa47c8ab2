/**
 * A process for tree.test.ts: gives up root, then removes the entry named by its arguments and exits with
 * the code of the failure on standard output. Root could remove anything, whatever its permission bits.
 */
import { isSystemError, native } from '../../../native/index.ts';

const [directory = '', name = ''] = process.argv.slice(2);
const fd = native.open(directory, 0);
if (process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.(65534);
  process.setuid?.(65534);
}
try {
  await native.removeTree(fd, name);
  console.log('removed');
} catch (error) {
  console.log(isSystemError(error) ? `${error.code} ${error.syscall}` : error);
}
