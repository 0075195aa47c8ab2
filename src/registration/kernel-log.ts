/** The kernel's log, where it may be read: /dev/kmsg without waiting, the newest records that there are. */
import { closeSync, constants, openSync, readSync } from 'node:fs';

const mostRecords = 20_000;

/** Messages without their prefix; null: it may not be read here. */
export function readKernelLog(path = '/dev/kmsg'): string[] | null {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return null;
  }
  const lines: string[] = [];
  const buffer = Buffer.alloc(16 * 1024);
  try {
    while (lines.length < mostRecords) {
      const read = readSync(fd, buffer);
      if (read === 0) break;
      const record = buffer.toString('utf8', 0, read);
      lines.push(record.slice(record.indexOf(';') + 1).split('\n')[0] ?? '');
    }
  } catch {
    // EAGAIN: that was the newest one. EPIPE: records were lost meanwhile; what was read is enough.
  } finally {
    closeSync(fd);
  }
  return lines;
}
