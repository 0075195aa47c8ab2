/** A checkpoint as the builds page shows it before anything runs: what it holds, and what would fit where. */
import type { CheckpointInspection } from '../contract/build-schemas.ts';
import { FailureError, outcomeOf, type Failure } from '../contract/failure.ts';
import type { FoundCheckpoint, Offer } from '../production/checkpoint-findings.ts';
import { inspect } from '../production/inspection.ts';
import { checkCapacity } from '../store/capacity.ts';
import type { Domain } from '../store/domain.ts';
import { withoutTorch } from '../catalog/entry-facts.ts';

/** `domain`: where it would go. Throws FailureError where nothing could be found out, or the signal's reason. */
export async function inspectForBuild(
  checkpoint: string,
  domain: Domain | null,
  signal: AbortSignal | undefined,
): Promise<CheckpointInspection> {
  const findings = await inspect(checkpoint, { signal });
  if (!findings.ok) throw new FailureError(findings.failure);
  const { problems, problemCount, found } = findings.value;
  return {
    checkpoint,
    problems,
    problemCount,
    found: found === null ? null : await shownCheckpoint(found, domain),
  };
}

async function shownCheckpoint(
  found: FoundCheckpoint,
  domain: Domain | null,
): Promise<NonNullable<CheckpointInspection['found']>> {
  const offers = [];
  for (const { representation, plan, failure } of found.offers) {
    offers.push({
      representation,
      plan: plan === null ? null : { ...plan, dtype: withoutTorch(plan.dtype) },
      failure: plan === null || domain === null ? failure : await whyNotNow(domain, plan),
    });
  }
  const bytesByDtype = found.bytesByDtype.map(({ dtype, bytes }) => ({ dtype: withoutTorch(dtype), bytes }));
  return { ...found, bytesByDtype, offers };
}

/** The rule that the build itself goes by, asked ahead. It is there already, perhaps, and then takes nothing. */
async function whyNotNow(domain: Domain, plan: NonNullable<Offer['plan']>): Promise<Failure | null> {
  const { artifactBytes } = plan;
  const checked = await outcomeOf(() => checkCapacity(domain, artifactBytes, artifactBytes));
  return checked.ok ? null : checked.failure;
}
