/**
 * Everything that crosses the process boundary, one line per call. The desktop app (over a MessagePort), the
 * page in a browser (over a WebSocket) and tests (in process) all speak exactly this.
 *
 * - Types are inferred from the schemas: `DeskClient` for whoever calls, the schemas' own for the host.
 * - The host validates every input once, at this door, and refuses fields that it does not know.
 * - A failure is one typed error, `FAILURE`, with the Failure as its data; see call-failure.ts. Any other error
 *   is a lost connection or a bug.
 * - `streamOf` is a sequence of events. One that belongs to a piece of work ends with its result; the others
 *   run until the caller leaves. A caller that leaves stops only what it owns: a verification, a cleanup, never a
 *   build.
 * - Plain JSON only: moments are milliseconds since 1970, sizes are bytes, what is unknown is null.
 */
import { eventIterator, oc, type ContractRouterClient } from '@orpc/contract';
import type { z } from 'zod';
import * as app from './app-schemas.ts';
import * as artifacts from './artifact-schemas.ts';
import * as builds from './build-schemas.ts';
import { failureErrorCode } from './call-failure.ts';
import * as cleanups from './cleanup-schemas.ts';
import * as domains from './domain-schemas.ts';
import * as gpus from './gpu-schemas.ts';
import * as stores from './store-schemas.ts';
import { failureValue, listOf } from './values.ts';

/** A call that can fail, as every one can. */
export const call = oc.errors({ [failureErrorCode]: { message: 'The call failed.', data: failureValue } });
const nothing = app.nothing;

function streamOf<T extends z.ZodType>(event: T): ReturnType<typeof eventIterator<z.input<T>, z.output<T>>> {
  return eventIterator<z.input<T>, z.output<T>>(event);
}

export const contract = {
  app: {
    status: call.output(app.appStatus),
    events: call.output(streamOf(app.appEvent)),
  },
  stores: {
    list: call.output(listOf(stores.store)),
    /** Adopts what is there, as it is, and remembers it. */
    open: call.input(stores.storeRequest).output(stores.store),
    /** Only forgets it: nothing on disk changes. */
    forget: call.input(stores.storeRequest).output(nothing),
    /** For the form, while somebody types: never fails, tells problems. */
    check: call.input(stores.storePlan).output(stores.storeCheck),
    create: call.input(stores.storePlan).output(stores.createdStore),
  },
  domain: {
    /** Where the bytes are: a query that costs the same however many artifacts there are. */
    overview: call.input(domains.domainRequest).output(domains.domainOverview),
    /** Artifacts and their tensors, by words, dtype and shape. */
    find: call.input(domains.findRequest).output(domains.findPage),
    inventory: call.input(domains.inventoryRequest).output(domains.inventoryPage),
    summary: call.input(domains.domainRequest).output(domains.domainSummary),
    locks: call.input(domains.domainRequest).output(domains.domainLocks),
    watch: call.input(domains.domainRequest).output(streamOf(domains.domainChange)),
  },
  artifact: {
    show: call.input(artifacts.artifactRequest).output(artifacts.artifact),
    tensors: call.input(artifacts.tensorsRequest).output(artifacts.tensorsPage),
    verify: call.input(artifacts.verifyRequest).output(streamOf(artifacts.verificationEvent)),
    /** Never waits for and never interrupts anybody who builds or uses it. */
    remove: call.input(artifacts.artifactRequest).output(artifacts.removal),
  },
  cleanup: {
    /** Changes nothing and takes no lock. The plan is kept for whoever then applies it. */
    plan: call.input(cleanups.planRequest).output(cleanups.cleanupPlan),
    /** More of the lines of one group. */
    entries: call.input(cleanups.planEntriesRequest).output(cleanups.planEntries),
    /** Leaving stops it between two entries; what went is gone. */
    apply: call.input(cleanups.applyRequest).output(streamOf(cleanups.cleanupEvent)),
    /** A quarantined entry that verifies in full goes back, where its key is free. Leaving gives it up. */
    restore: call.input(cleanups.restoreRequest).output(streamOf(cleanups.restorationEvent)),
  },
  builds: {
    /** Reads headers only. What is wrong with the checkpoint is an answer and not a failure. */
    inspect: call.input(builds.inspectRequest).output(builds.inspection),
    start: call.input(builds.buildRequest).output(builds.startedBuild),
    list: call.output(builds.buildList),
    watch: call.input(builds.buildReference).output(streamOf(builds.buildEvent)),
    /** Asks it to stop and clean up; its end tells how that went. */
    cancel: call.input(builds.buildReference).output(nothing),
    /** Takes an ended build off the list. */
    dismiss: call.input(builds.buildReference).output(nothing),
  },
  gpus: {
    /** Asks the driver, in processes of their own. Without one, and while one is stuck, that is part of the answer. */
    list: call.input(gpus.gpuListRequest).output(gpus.gpuListing),
    setMode: call.input(gpus.gpuModeChange).output(gpus.gpuSetting),
    /** What to give vLLM-Omni for these GPUs, as they are set. */
    flags: call.input(gpus.gpuFlagsRequest).output(gpus.gpuFlags),
  },
  registrations: {
    start: call.input(gpus.registrationRequest).output(gpus.registrationReference),
    /** Those of this program, the newest first, and those that live elsewhere. */
    list: call.output(gpus.registrationList),
    /** Ends when its process is gone. */
    watch: call.input(gpus.registrationReference).output(streamOf(gpus.registrationEvent)),
    /** Gives registered pages back; else asks it to go. Not gone: it did not obey, and `force` is the next step. */
    end: call.input(gpus.registrationEnd).output(gpus.registrationEnded),
    diagnose: call.input(gpus.diagnosisRequest).output(gpus.diagnosis),
    /** Writes a redacted archive for a bug report. */
    bundle: call.input(gpus.bundleRequest).output(nothing),
  },
  workers: {
    /** vLLM-Omni processes of this machine, by their leases and command lines. */
    list: call.output(gpus.workerList),
    /** Reads a log of theirs and follows it. */
    followLog: call.input(gpus.logRequest).output(streamOf(gpus.logEvent)),
  },
  sample: {
    /** A small checkpoint, a store in the default place, one built from the other. */
    start: call.output(builds.startedBuild),
  },
  activity: {
    list: call.input(app.activityRequest).output(app.activityAnswer),
  },
  settings: {
    get: call.output(app.settings),
    update: call.input(app.settingsChange).output(app.settings),
  },
  files: {
    /** For choosing a folder where there is no native dialog. */
    browse: call.input(app.browseRequest).output(app.folderListing),
  },
};

export type DeskContract = typeof contract;
export type DeskClient = ContractRouterClient<DeskContract>;
