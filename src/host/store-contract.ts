/**
 * What the process that reads one store answers (see store-process.ts): the contract's own calls about a store
 * and its artifacts, passed on as they are, and a few that only the Workstation asks. It knows nothing of this
 * program's builds: whose process holds a lock is for the Workstation to add.
 */
import type { ContractRouterClient } from '@orpc/contract';
import { z } from 'zod';
import { buildElsewhere } from '../contract/build-schemas.ts';
import { applyRequest } from '../contract/cleanup-schemas.ts';
import { call, contract } from '../contract/contract.ts';
import { domainChange } from '../contract/domain-schemas.ts';
import { store } from '../contract/store-schemas.ts';
import { listOf } from '../contract/values.ts';

export const storeContract = {
  /** Answered at once, whatever else goes on: a process that does not is stuck. */
  alive: call.output(z.null()),
  /** The root without links. Fails where there is no usable store. */
  root: call.output(z.string()),
  summary: call.output(store),
  state: call.output(domainChange),
  /** Builds that the locks of the last look show, of whatever process. */
  builders: call.output(listOf(buildElsewhere)),
  /** Something changed in it, or may have. */
  touch: call.output(z.null()),
  /** What is wrong with the program's own files, for a person. */
  notices: call.output(listOf(z.string())),
  domain: contract.domain,
  artifact: contract.artifact,
  cleanup: contract.cleanup,
  /** Between two entries, with its summary; `cleanup.apply` that is left tells none. */
  stopCleanup: call.input(applyRequest.pick({ planId: true })).output(z.null()),
};

export type StoreContract = typeof storeContract;
export type StoreClient = ContractRouterClient<StoreContract>;
