/**
 * The inspection process: reads a checkpoint's headers, tells what it found, and exits. A process of its own,
 * because a checkpoint can lie on anybody's file system, and one that hangs can then be ended.
 *
 * One request as a line of JSON on stdin, one answer as a line on stdout. The end of stdin means go.
 */
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { native } from '#native';
import { findCheckpoint } from './checkpoint-findings.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
process.stdin.on('end', () => process.exit(1));

createInterface({ input: process.stdin }).once('line', (line) => {
  void findCheckpoint((JSON.parse(line) as { path: string }).path).then((findings) => {
    process.stdout.write(`${JSON.stringify(findings)}\n`, () => process.exit(0));
  });
});
