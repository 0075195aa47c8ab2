/** A process for locks.test.ts: takes the lock, says so, and holds it until its input ends. */
import { native } from '../../../native/index.ts';

const [path = '', mode] = process.argv.slice(2);
const fd = native.open(path, 2);
console.log(native.flockTry(fd, mode === 'exclusive') ? 'held' : 'refused');
process.stdin.resume();
