/**
 * Plans with what the host knows: the identities that manifests hold, and the history of leases where one is
 * kept. What the pages and the command line both go through.
 */
import type { UseHistory } from '../cleanup/history.ts';
import { plan, type CleanupPlan, type PlanOptions } from '../cleanup/plan.ts';
import { FailureError, type Outcome } from '../contract/failure.ts';
import type { Domain } from '../store/domain.ts';
import { storedIdentities } from '../store/stored-identity.ts';
import { storeOutcome } from './stores.ts';

export interface PlanningHost {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly history: UseHistory | null;
}

export async function planCleanup(
  domain: Domain,
  options: PlanOptions,
  { now, history }: PlanningHost,
): Promise<Outcome<CleanupPlan>> {
  return await storeOutcome(`the store at ${domain.root} cannot be listed`, async () => {
    const made = await plan(domain, options, {
      now,
      history,
      identitiesOf: async (of, entries) =>
        (await storedIdentities(of, entries)).map(({ identity }) => identity),
    });
    if (!made.ok) throw new FailureError(made.failure);
    return made.value;
  });
}
