/** The contract of one store, implemented over the store that is watched here. */
import { implement, type Router } from '@orpc/server';
import type { DomainChange } from '../contract/domain-schemas.ts';
import { cleanup } from '../store/cleanup.ts';
import { lockStates } from '../store/lock-holders.ts';
import { turn } from '../store/turns.ts';
import { ArtifactReader } from './artifact-reader.ts';
import { buildersOf } from './builders.ts';
import { callError } from './call-errors.ts';
import { EventStream } from './event-stream.ts';
import { heldLocks } from './held-locks.ts';
import { valueOf } from './outcomes.ts';
import { restorationStream } from './restoration-stream.ts';
import { StoreCleaning } from './store-cleaning.ts';
import { storeContract, type StoreContract } from './store-contract.ts';
import { treemapOf } from './treemap.ts';
import { verificationStream } from './verification-stream.ts';
import type { WatchedStore } from './watched-store.ts';

export type StoreRouter = Router<StoreContract, object>;

export interface StoreRouterOptions {
  readonly now: () => number;
  /** What is wrong with the program's own files. */
  readonly notices: () => string[];
  /** Is told of what is nobody's failure. */
  readonly onBug: (error: unknown) => void;
}

export function storeRouter(store: WatchedStore, { now, notices, onBug }: StoreRouterOptions): StoreRouter {
  const artifacts = new ArtifactReader();
  const cleaning = new StoreCleaning(store, { now, history: null });
  const translate = (error: unknown): unknown => callError(error, onBug);
  const answer = implement(storeContract).use(async ({ next }) => {
    try {
      return await next();
    } catch (error) {
      throw translate(error);
    }
  });

  return answer.router({
    alive: answer.alive.handler(() => null),
    root: answer.root.handler(async () => (await store.online()).domain.root),
    summary: answer.summary.handler(async () => await store.summary()),
    state: answer.state.handler(async () => store.changeOf(await store.look())),
    builders: answer.builders.handler(async () => buildersOf(store, await store.look())),
    touch: answer.touch.handler(() => {
      store.touch();
      return null;
    }),
    notices: answer.notices.handler(() => notices()),
    domain: {
      overview: answer.domain.overview.handler(async () => ({ groups: await store.overview() })),
      find: answer.domain.find.handler(async ({ input: { search, dtype, shape, offset, limit } }) => {
        const words = search.split(/\s+/).filter((word) => word !== '');
        const { look, found } = await store.find({ words, dtype, shape, offset, limit });
        return { revision: look.revision, offset, ...found };
      }),
      inventory: answer.domain.inventory.handler(async ({ input }) => {
        const { look, matching } = await store.matching(input);
        const { offset, limit } = input;
        return {
          revision: look.revision,
          measuredAtMs: look.snapshot.usage.measuredAtMs,
          total: matching.rows.length,
          totalBytes: matching.totalBytes,
          allRows: look.snapshot.rows.length,
          offset,
          rows: matching.rows.slice(offset, offset + limit),
        };
      }),
      summary: answer.domain.summary.handler(async () => {
        const look = await store.online();
        await turn();
        const models = treemapOf(look.snapshot.rows);
        await turn();
        return { store: store.summaryOf(look), models };
      }),
      locks: answer.domain.locks.handler(async () => {
        await store.online();
        const states = await lockStates(store.root);
        store.leases.saw(states);
        const held = heldLocks(states, store.sightings);
        return { measuredAtMs: now(), held, free: states.length - held.length };
      }),
      watch: answer.domain.watch.handler(({ signal }) => {
        const release = store.changed.subscribe((change) => stream.push(change, 'change'));
        const stream = new EventStream<DomainChange>({ signal, onClose: release });
        void store.look().then(
          (look) => stream.push(store.changeOf(look), 'change'),
          (error: unknown) => stream.fail(translate(error)),
        );
        return stream.start();
      }),
    },
    artifact: {
      show: answer.artifact.show.handler(async ({ input }) => await artifacts.show(store, input.key)),
      tensors: answer.artifact.tensors.handler(async ({ input }) => await artifacts.tensors(store, input)),
      verify: answer.artifact.verify.handler(async ({ input: { key, level }, signal }) => {
        const look = await store.online();
        const bytes = look.snapshot.rows.find((row) => row.id === `ready/${key}`)?.bytes ?? 0;
        return verificationStream(look.domain, {
          target: { key, bytes },
          level,
          signal,
          now,
          translate,
          onResult: (result) => void store.verified(result, look).catch(onBug),
        });
      }),
      remove: answer.artifact.remove.handler(async ({ input }) => {
        const { domain } = await store.online();
        const removal = valueOf(await cleanup(domain, input.key));
        store.touch();
        return removal;
      }),
    },
    cleanup: {
      plan: answer.cleanup.plan.handler(async ({ input }) => await cleaning.plan(input)),
      entries: answer.cleanup.entries.handler(({ input }) => cleaning.entries(input)),
      apply: answer.cleanup.apply.handler(async function* ({ input, signal }) {
        try {
          yield* cleaning.apply(input.planId, signal);
        } catch (error) {
          throw translate(error);
        }
      }),
      restore: answer.cleanup.restore.handler(async ({ input: { name }, signal }) => {
        const { domain, snapshot } = await store.online();
        const bytes = snapshot.rows.find(({ id }) => id === `quarantined/${name}`)?.bytes ?? 0;
        return restorationStream(domain, { name, bytes, signal, translate, onEnd: () => store.touch() });
      }),
    },
    stopCleanup: answer.stopCleanup.handler(({ input }) => {
      cleaning.stop(input.planId);
      return null;
    }),
  });
}
