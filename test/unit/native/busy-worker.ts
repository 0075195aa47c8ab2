/** For teardown.test.ts: starts one long call of each kind, queued ones too, and then waits or exits. */
import { constants } from 'node:fs';
import { join } from 'node:path';
import { parentPort } from 'node:worker_threads';

import { native } from '../../../native/index.ts';

const [folder = '', what] = process.argv.slice(2);
const length = 16 << 20;
const source = native.open(join(folder, 'source'), 0);
const target = native.open(join(folder, 'target'), constants.O_RDWR | constants.O_CREAT, 0o600);
const writer = native.payloadWriter(target, new Uint8Array(8), 4 * length);

void native.sha256Ranges([{ fd: source, offset: 0, length }]);
for (let i = 0; i < 4; i++) void writer.copy([{ fd: source, offset: 0, length, cast: 'none' }]);
void writer.finish();
void native.listTree(native.open('/usr', 0));
parentPort?.postMessage('busy');
if (what === 'exit') process.exit(7);
