/**
 * The process that reads one store, for as long as the store is known: it looks, watches, answers what the
 * pages ask about it, and checks artifacts. So the main process is held up neither by a store of many thousand
 * artifacts nor by a mount whose server is gone, and one store never waits for another.
 *
 * `store-process.ts ROOT POLL-MS REVISION CATALOG HISTORY`; speaks the contract of store-contract.ts over its pipes, and tells
 * its bugs on stderr. It goes when its stdin ends, which the parent's death does too. It holds locks only while it
 * checks or removes an artifact, and may be killed at any moment.
 */
import { constants } from 'node:os';
import { native } from '#native';
import { Catalog } from '../catalog/catalog.ts';
import { History } from '../catalog/history.ts';
import { LinePort } from './line-port.ts';
import { servePort } from './message-port.ts';
import { RpcServer } from './rpc-connection.ts';
import { storeRouter } from './store-router.ts';
import { WatchedStore } from './watched-store.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
// A terminal's Ctrl+C is meant for the program, which then ends this in its own order.
for (const signal of ['SIGINT', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);

const [root = '', pollMs = '', revision = '', catalogPath = '', historyPath = ''] = process.argv.slice(2);
const onBug = (error: unknown): void => {
  const cause = error instanceof Error && error.cause instanceof Error ? `\n${error.cause.message}` : '';
  console.error((error instanceof Error ? (error.stack ?? error.message) : String(error)) + cause);
};
const [catalog, history] = await Promise.all([Catalog.open(catalogPath), History.open(historyPath)]);
const store = new WatchedStore(root, {
  now: Date.now,
  pollMs: Number(pollMs),
  revision: Number(revision),
  catalog,
  history,
  onBug,
});
const notices = (): string[] => [catalog, history].flatMap(({ problem }) => problem ?? []);
/** Its one client is the program itself, which has its own limits for its clients. */
const limits = { maxCalls: 1024, maxStreams: 4096 };
servePort(
  new RpcServer(storeRouter(store, { now: Date.now, notices, onBug }), limits),
  new LinePort(process.stdin, process.stdout),
);
process.stdin.on('close', () => {
  // Leaves whole files and no logs beside them. A process that is killed leaves logs, which the next one takes in.
  catalog.close();
  history.close();
  process.exit();
});
