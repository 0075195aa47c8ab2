/**
 * Gathers evidence and exits. A process of its own with a deadline: the payload can lie on a file system that hangs,
 * and reads about a stuck process have been known to hang with it. One request, one answer, each a line of JSON.
 */
import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { native } from '#native';
import { holdersOfFile } from '../store/lock-holders.ts';
import { artifactLock } from '../store/paths.ts';
import {
  cgroupEvidence,
  diskReads,
  machineEvidence,
  mountEvidence,
  processEvidence,
  type Evidence,
  type Machine,
} from './evidence.ts';
import type { EvidenceRequest } from './evidence-gathering.ts';
import { readKernelLog } from './kernel-log.ts';
import { insideSinceMs, processOf, RunFolder } from './run-record.ts';

native.setParentDeathSignal(constants.signals.SIGKILL);
process.stdin.on('end', () => process.exit(1));

createInterface({ input: process.stdin }).once('line', (line) => {
  void gather(JSON.parse(line) as EvidenceRequest).then((evidence) => {
    process.stdout.write(`${JSON.stringify(evidence)}\n`, () => process.exit(0));
  });
});

async function gather({
  pid,
  payload,
  artifact,
  state,
  proc,
  sys,
}: EvidenceRequest): Promise<Omit<Evidence, 'session'>> {
  const machine: Machine = { proc, sys, kernelLog: () => readKernelLog() };
  const readBefore = pid === null ? null : diskReads(pid, machine);
  const measuredMs = 500;
  if (readBefore !== null) await new Promise((resolve) => setTimeout(resolve, measuredMs));
  const readAfter = pid === null ? null : diskReads(pid, machine);
  const rate =
    readBefore === null || readAfter === null ? null : ((readAfter - readBefore) / measuredMs) * 1000;
  return {
    pid,
    process: pid === null ? null : processEvidence(pid, machine),
    cgroup: pid === null ? null : cgroupEvidence(pid, machine),
    ...machineEvidence(machine),
    payload:
      payload === null
        ? null
        : {
            path: payload,
            ...mountEvidence(payload, machine),
            ...cacheOf(payload),
            readBytesPerSecond: rate,
          },
    others: othersAt(artifact, state, pid),
  };
}

function cacheOf(path: string): { bytes: number | null; cachedBytes: number | null } {
  try {
    const fd = openSync(path, 'r');
    try {
      return {
        bytes: native.fstat(fd).sizeBytes,
        cachedBytes: native.pageCache(fd, 0, 0)?.cachedBytes ?? null,
      };
    } finally {
      closeSync(fd);
    }
  } catch {
    return { bytes: null, cachedBytes: null };
  }
}

/** Who leases the same artifact, and who of them is inside a call by our own records. */
function othersAt(
  artifact: EvidenceRequest['artifact'],
  state: string,
  own: number | null,
): Evidence['others'] {
  if (artifact === null) return [];
  const records = new RunFolder(state).live();
  return holdersOfFile(join(artifact.root, 'locks', artifactLock(artifact.key)), '/proc', 'name')
    .filter(({ pid }) => pid !== own && pid !== 0)
    .map(({ pid }) => {
      const record = records.find((candidate) => processOf(candidate)?.pid === pid);
      const last = record?.events.findLast((event) => event.event === 'entering');
      return {
        pid,
        session: record?.head.session ?? null,
        inside: record !== undefined && last !== undefined && insideSinceMs(record) !== null,
        where:
          last === undefined
            ? null
            : `GPU ${record?.head.gpuName ?? '?'}, region ${last.region} of ${last.regions}, chunk ${last.chunk} of ${last.chunks}`,
      };
    });
}
