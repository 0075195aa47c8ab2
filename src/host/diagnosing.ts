/** Why a registration or a worker does not get on: what is on record, joined with the evidence of now. */
import { dirname } from 'node:path';
import type { Diagnosis } from '../contract/gpu-schemas.ts';
import { diagnose } from '../registration/diagnosis.ts';
import type { Evidence, SessionEvidence } from '../registration/evidence.ts';
import { gatherEvidence } from '../registration/evidence-gathering.ts';
import { machineMs, type RegistrarEvent } from '../registration/registrar-protocol.ts';
import type { SessionView } from '../registration/registration-session.ts';
import { isAlive, processOf, type RunRecord } from '../registration/run-record.ts';
import type { GpuRegistry } from './gpu-registry.ts';

export interface DiagnosedSession extends Diagnosis {
  /** What was found, in its own types: for a bundle. */
  readonly full: Evidence;
  readonly record: RunRecord | null;
}

/** Of our own, by its run record; `view` where this process runs it. Null state: there is no such session. */
export async function diagnoseSession(
  gpus: GpuRegistry,
  id: string,
  view: SessionView | null = null,
): Promise<DiagnosedSession> {
  const record = gpus.runs.read(id);
  const child = record === null ? null : processOf(record);
  const alive = record !== null && isAlive(record);
  const session = record === null ? null : sessionEvidence(record, view, alive);
  const plan = record?.events.findLast((event) => event.event === 'plan');
  const file = plan?.files.find(({ name }) => name === session?.lastEntered?.file) ?? plan?.files[0];
  return await diagnoseWith(
    gpus,
    { pid: alive ? (child?.pid ?? null) : null, payload: file?.path ?? null, artifact: artifactOf(record) },
    session,
    record,
  );
}

/** Of any process: one of ours by its record, another by what the kernel shows and the log says. */
export async function diagnoseProcess(
  gpus: GpuRegistry,
  pid: number,
  told: SessionEvidence | null = null,
): Promise<DiagnosedSession> {
  const own = gpus.runs.live().findLast((record) => processOf(record)?.pid === pid);
  if (own !== undefined) return await diagnoseSession(gpus, own.head.session);
  return await diagnoseWith(gpus, { pid, payload: null, artifact: null }, told, null);
}

async function diagnoseWith(
  gpus: GpuRegistry,
  about: { pid: number | null; payload: string | null; artifact: { root: string; key: string } | null },
  session: SessionEvidence | null,
  record: RunRecord | null,
): Promise<DiagnosedSession> {
  const gathered = await gatherEvidence({
    ...about,
    state: dirname(gpus.runs.path),
    proc: '/proc',
    sys: '/sys',
  });
  const full: Evidence = { ...gathered, session };
  return {
    findings: diagnose(full).map((finding) => ({ ...finding, evidence: [...finding.evidence] })),
    evidence: JSON.parse(JSON.stringify(full)) as Diagnosis['evidence'],
    full,
    record,
  };
}

function artifactOf(record: RunRecord | null): { root: string; key: string } | null {
  if (record === null || record.head.root === null || record.head.key === null) return null;
  return { root: record.head.root, key: record.head.key };
}

export function sessionEvidence(
  record: RunRecord,
  view: SessionView | null,
  alive: boolean,
): SessionEvidence {
  const { events, head } = record;
  const entered = events.findLast((event) => event.event === 'entering');
  const returned = events.findLast((event) => event.event === 'returned');
  const result = events.findLast((event) => event.event === 'result');
  const plan = events.findLast((event) => event.event === 'plan');
  const isOut =
    entered !== undefined && (returned === undefined || returned.monotonicMs < entered.monotonicMs);
  const insideSeconds = isOut && alive ? (machineMs() - entered.monotonicMs) / 1000 : null;
  const limit = result?.reason?.details['limit_bytes'];
  return {
    state: view?.state ?? stateOf(result, insideSeconds, head.stallAfterMs, alive),
    reason: view?.reason ?? result?.reason ?? null,
    lastEntered:
      entered === undefined
        ? null
        : {
            file: entered.file,
            region: entered.region,
            regions: entered.regions,
            chunk: entered.chunk,
            chunks: entered.chunks,
            bytes: entered.bytes,
            insideSeconds,
          },
    planBytes: plan?.bytes ?? null,
    registeredBytes: registeredBytes(events),
    limitBytes: typeof limit === 'number' ? limit : null,
    gpuName: head.gpuName,
    ignoredTermination: view?.ignoredTermination ?? false,
  };
}

function stateOf(
  result: Extract<RegistrarEvent, { event: 'result' }> | undefined,
  insideSeconds: number | null,
  stallAfterMs: number,
  alive: boolean,
): string {
  if (insideSeconds !== null) return insideSeconds * 1000 > stallAfterMs ? 'stalled' : 'registering';
  if (result !== undefined) return result.state;
  return alive ? 'planning' : 'abandoned';
}

function registeredBytes(events: readonly RegistrarEvent[]): number {
  return events.reduce((total, event) => {
    if (event.event !== 'returned' || event.code !== 0) return total;
    return total + (event.call === 'register' ? event.bytes : -event.bytes);
  }, 0);
}
