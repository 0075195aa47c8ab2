/**
 * The contract, implemented: each call named, its input validated by its schema, and handed to the part of the
 * Workstation that does it. Nothing is decided here.
 */
import { implement, type Router } from '@orpc/server';
import type { AppStatus } from '../contract/app-schemas.ts';
import { contract, type DeskContract } from '../contract/contract.ts';
import { callError } from './call-errors.ts';
import { browse } from './folder-browser.ts';
import { homeOf } from './default-paths.ts';
import { absolutePath } from './user-path.ts';
import type { Workstation } from './workstation.ts';

/** What a connection brings with it. */
export interface DeskContext {
  readonly transport: AppStatus['transport'];
}

export type DeskRouter = Router<DeskContract, DeskContext>;

export function deskRouter(workstation: Workstation): DeskRouter {
  const { activity, builds, cleaning, env, gpus, registrations, settings, stores } = workstation;
  const translate = (error: unknown): unknown => callError(error, workstation.reportBug);
  const desk = implement(contract)
    .$context<DeskContext>()
    .use(async ({ next }) => {
      try {
        return await next();
      } catch (error) {
        throw translate(error);
      }
    });

  return desk.router({
    app: {
      status: desk.app.status.handler(({ context }) => workstation.status(context.transport)),
      events: desk.app.events.handler(({ signal }) => workstation.events(signal)),
    },
    stores: {
      list: desk.stores.list.handler(async () => await workstation.listStores()),
      open: desk.stores.open.handler(async ({ input }) => await workstation.openStore(input.root)),
      forget: desk.stores.forget.handler(async ({ input }) => {
        await workstation.forgetStore(input.root);
        return {};
      }),
      check: desk.stores.check.handler(async ({ input }) => await workstation.checkStore(input)),
      create: desk.stores.create.handler(async ({ input }) => await workstation.createStore(input)),
    },
    domain: {
      overview: desk.domain.overview.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ domain }) => domain.overview(input)),
      ),
      find: desk.domain.find.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ domain }) => domain.find(input)),
      ),
      inventory: desk.domain.inventory.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ domain }) => domain.inventory(input)),
      ),
      summary: desk.domain.summary.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ domain }) => domain.summary(input)),
      ),
      locks: desk.domain.locks.handler(async ({ input }) => await workstation.locks(stores.get(input.root))),
      watch: desk.domain.watch.handler(({ input, signal }) =>
        workstation.watchStore(stores.get(input.root), signal),
      ),
    },
    artifact: {
      show: desk.artifact.show.handler(
        async ({ input }) => await workstation.showArtifact(stores.get(input.root), input.key),
      ),
      tensors: desk.artifact.tensors.handler(
        async ({ input }) =>
          await stores.get(input.root).ask(async ({ artifact }) => artifact.tensors(input)),
      ),
      verify: desk.artifact.verify.handler(({ input, signal }) =>
        workstation.verify(stores.get(input.root), input, signal),
      ),
      remove: desk.artifact.remove.handler(
        async ({ input }) => await workstation.removeArtifact(stores.get(input.root), input.key),
      ),
    },
    cleanup: {
      plan: desk.cleanup.plan.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ cleanup }) => cleanup.plan(input)),
      ),
      entries: desk.cleanup.entries.handler(
        async ({ input }) => await stores.get(input.root).ask(async ({ cleanup }) => cleanup.entries(input)),
      ),
      apply: desk.cleanup.apply.handler(({ input, signal }) =>
        cleaning.apply(stores.get(input.root), input.planId, signal),
      ),
      restore: desk.cleanup.restore.handler(({ input, signal }) =>
        cleaning.restore(stores.get(input.root), input, signal),
      ),
    },
    builds: {
      inspect: desk.builds.inspect.handler(
        async ({ input, signal }) => await workstation.inspect(input.checkpoint, input.root, signal),
      ),
      start: desk.builds.start.handler(async ({ input }) => await workstation.startBuild(input)),
      list: desk.builds.list.handler(async () => await workstation.listBuilds()),
      watch: desk.builds.watch.handler(({ input, signal }) => builds.watch(input.id, signal)),
      cancel: desk.builds.cancel.handler(({ input }) => {
        builds.cancel(input.id);
        return {};
      }),
      dismiss: desk.builds.dismiss.handler(({ input }) => {
        builds.dismiss(input.id);
        return {};
      }),
    },
    gpus: {
      list: desk.gpus.list.handler(async ({ input }) => await gpus.list(input)),
      setMode: desk.gpus.setMode.handler(
        async ({ input: { uuid, mode, limitGib } }) =>
          await gpus.setMode(uuid, {
            ...(mode === undefined ? {} : { mode }),
            ...(limitGib === undefined ? {} : { limitGib }),
          }),
      ),
      flags: desk.gpus.flags.handler(({ input }) => gpus.flags(input.uuids)),
    },
    registrations: {
      start: desk.registrations.start.handler(
        async ({ input }) => await workstation.startRegistration(input),
      ),
      list: desk.registrations.list.handler(() => ({ registrations: registrations.list() })),
      watch: desk.registrations.watch.handler(({ input, signal }) => registrations.watch(input.id, signal)),
      end: desk.registrations.end.handler(async ({ input }) => await registrations.end(input.id, input)),
      diagnose: desk.registrations.diagnose.handler(async ({ input }) => await registrations.diagnose(input)),
      bundle: desk.registrations.bundle.handler(async ({ input }) => {
        await workstation.bundle(input.id, input.path);
        return {};
      }),
    },
    workers: {
      list: desk.workers.list.handler(async () => ({ workers: await workstation.listWorkers() })),
      followLog: desk.workers.followLog.handler(({ input, signal }) =>
        workstation.followLog(input.path, signal),
      ),
    },
    sample: {
      start: desk.sample.start.handler(() => workstation.startSample()),
    },
    activity: {
      list: desk.activity.list.handler(({ input }) => activity.newest(input.limit)),
    },
    settings: {
      get: desk.settings.get.handler(() => settings.current),
      update: desk.settings.update.handler(async ({ input }) => await workstation.updateSettings(input)),
    },
    files: {
      browse: desk.files.browse.handler(
        async ({ input }) => await browse(absolutePath(input.path ?? '~', homeOf(env))),
      ),
    },
  });
}
