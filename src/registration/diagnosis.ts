/**
 * Rules over evidence, as data. Each names a cause, how sure it is, what led to it and what to do next. Several can
 * hold; where none does, that is said, with the evidence. A rule names a cause only when the evidence shows it:
 * that a limit exists is no proof that it was hit, and a call that does not return is no proof of a broken driver.
 */
import { formatBytes } from '../contract/bytes.ts';
import type { Evidence, SessionEvidence } from './evidence.ts';

export type Confidence = 'certain' | 'likely' | 'possible';

export interface Finding {
  readonly rule: string;
  readonly confidence: Confidence;
  readonly summary: string;
  readonly evidence: readonly string[];
  readonly next: string;
}

export interface Rule {
  readonly name: string;
  readonly confidence: Confidence;
  readonly summary: string;
  readonly next: string;
  /** What led to it; null: the evidence does not show it. */
  readonly shownBy: (evidence: Evidence) => readonly string[] | null;
}

/** cudaHostRegister of this much in one call failed in the field whatever memory was free. */
const tooLargeBytes = 512 * 1024 ** 3;
/** Long-term pins are refused for pages of these. */
const cannotPin = new Set([
  'fuse',
  'fuseblk',
  'nfs',
  'nfs4',
  'cifs',
  'smb3',
  '9p',
  'virtiofs',
  'overlayfs-dax',
  'ceph',
]);
const isRemote = (type: string | null): boolean =>
  type !== null && (cannotPin.has(type) || type.startsWith('fuse.'));

const rules: readonly Rule[] = [
  {
    name: 'disabled',
    confidence: 'certain',
    summary: 'Registration is switched off for this GPU.',
    next: 'Nothing is wrong. `weightroom gpu mode GPU auto` switches it on.',
    shownBy: ({ session }) => reasonIs(session, 'disabled'),
  },
  {
    name: 'no-read-only-support',
    confidence: 'certain',
    summary: 'This GPU cannot register pages that are mapped for reading only.',
    next: 'Nothing is broken: workers use bounded staging on it. Set it to disabled, so that nobody waits for it.',
    shownBy: ({ session }) => reasonIs(session, 'unsupported'),
  },
  {
    name: 'platform-forbids',
    confidence: 'certain',
    summary: 'This platform forbids registering host memory.',
    next: 'Not to be retried: confidential computing and some virtual machines forbid it for every size. Set the GPU to disabled.',
    shownBy: ({ session, kernel }) => (kernel.wsl ? null : reasonIs(session, 'platform_forbids')),
  },
  {
    name: 'over-budget',
    confidence: 'certain',
    summary: "The artifact is larger than this GPU's registration limit.",
    next: 'Raise the limit (`weightroom gpu mode GPU auto --limit SIZE`), or leave it: workers stage then.',
    shownBy: ({ session }) => reasonIs(session, 'over_budget'),
  },
  {
    name: 'memlock',
    confidence: 'likely',
    summary: 'The memlock limit of the process is lower than what it has to lock.',
    next: 'Raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1 for a container.',
    shownBy: ({ process, session }) => {
      if (process === null || process.mayLockFreely || !pinFailed(session)) return null;
      const { memlockBytes, lockedBytes, pinnedBytes } = process;
      if (memlockBytes === null || memlockBytes === 'unknown') return null;
      const wanted = Math.max(lockedBytes ?? 0, pinnedBytes ?? 0) + (session?.lastEntered?.bytes ?? 0);
      if (wanted <= memlockBytes) return null;
      return [`limit ${formatBytes(memlockBytes)}, locked and asked for ${formatBytes(wanted)}`];
    },
  },
  {
    name: 'cgroup-memory',
    confidence: 'likely',
    summary: "The memory limit of the process's control group was hit.",
    next: "Raise the container's or unit's memory limit above the artifact's size: its page cache counts too.",
    shownBy: ({ cgroup, session }) => {
      if (cgroup === null || cgroup.maxBytes === null || cgroup.currentBytes === null) return null;
      if (!troubled(session)) return null;
      const full = cgroup.currentBytes >= cgroup.maxBytes * 0.98;
      if (!full || ((cgroup.maxEvents ?? 0) === 0 && (cgroup.oomEvents ?? 0) === 0)) return null;
      return [
        `${formatBytes(cgroup.currentBytes)} of ${formatBytes(cgroup.maxBytes)} used, limit hit ${cgroup.maxEvents ?? 0} times`,
      ];
    },
  },
  {
    name: 'cold-file',
    confidence: 'likely',
    summary: 'The file is not in memory, and is read from a slow disk inside the call.',
    next: 'Wait: it goes on at the rate of the disk. Loading the file into memory first makes the call short.',
    shownBy: ({ payload, session }) => {
      if (payload === null || !isInside(session)) return null;
      const { bytes, cachedBytes, readBytesPerSecond: rate } = payload;
      if (bytes === null || cachedBytes === null || rate === null || rate < 1024 ** 2) return null;
      const missing = bytes - cachedBytes;
      if (missing < bytes * 0.05) return null;
      return [
        `${formatBytes(missing)} of ${formatBytes(bytes)} are not in memory`,
        `the process reads ${formatBytes(rate)}/s from the disk: about ${Math.ceil(missing / rate)} s for the rest`,
      ];
    },
  },
  {
    name: 'migration-contention',
    confidence: 'likely',
    summary: 'Several processes register pages of the same file at once.',
    next: 'Let them take turns: our registrars do so without --parallel; start workers one after another.',
    shownBy: ({ others, session }) => {
      const inside = others.filter((other) => other.inside);
      if (inside.length === 0 || !(isInside(session) || codeIs(session, 1, 2))) return null;
      return inside.map(
        ({ pid, session: id, where }) =>
          `process ${pid}${id === null ? '' : ` (session ${id})`}: ${where ?? 'inside a call'}`,
      );
    },
  },
  {
    name: 'cannot-pin',
    confidence: 'likely',
    summary: 'Pages of this file system cannot be pinned for long.',
    next: 'Put the store on a local disk or tmpfs.',
    shownBy: ({ payload, session }) => {
      if (payload === null || !isRemote(payload.filesystem) || !(pinFailed(session) || codeIs(session, 1)))
        return null;
      return [`${payload.path} lies on ${payload.filesystem}`, codeWords(session)];
    },
  },
  {
    name: 'cannot-map',
    confidence: 'certain',
    summary: 'The file cannot be mapped on this file system.',
    next: 'Put the store on a local disk or tmpfs. This is not about pinning: no CUDA call was made.',
    shownBy: ({ payload, session }) =>
      reasonIs(session, 'cannot_map')?.concat(
        payload === null ? [] : [`the file system is ${payload.filesystem}`],
      ) ?? null,
  },
  {
    name: 'region-too-large',
    confidence: 'likely',
    summary: 'A single region is too large for one call.',
    next: 'Register in chunks, as our registrar does; a worker needs an artifact in smaller payload files.',
    shownBy: ({ session }) => {
      const bytes = session?.lastEntered?.bytes ?? 0;
      if (bytes < tooLargeBytes || !codeIs(session, 1, 2)) return null;
      return [`one call for ${formatBytes(bytes)}`, codeWords(session)];
    },
  },
  {
    name: 'already-registered',
    confidence: 'certain',
    summary: 'Pages of the range are pinned by this process already.',
    next: 'A process that has seen this is not to be used again: start a new one.',
    shownBy: ({ session }) => (codeIs(session, 712) ? [codeWords(session)] : null),
  },
  {
    name: 'driver-stuck',
    confidence: 'likely',
    summary: 'The process is stuck in the driver or the kernel.',
    next: 'End it and wait; do not start another process on this GPU. Where the kernel reports an Xid or a hung task and it stays, only a reboot helps.',
    shownBy: ({ process, kernelLog, session }) => {
      if (!isInside(session) && !(session?.ignoredTermination ?? false)) return null;
      const waiting = process?.threads.filter(({ state }) => state === 'D') ?? [];
      const log = kernelLog?.filter((line) => /Xid|blocked for more than|hung task/i.test(line)) ?? [];
      if (waiting.length === 0 && log.length === 0) return null;
      return [
        ...waiting.map(
          ({ tid, wchan }) =>
            `thread ${tid} waits in the kernel (state D${wchan === null ? '' : `, in ${wchan}`})`,
        ),
        ...log,
      ];
    },
  },
  {
    name: 'survives-kill',
    confidence: 'certain',
    summary: 'The process is alive seconds after it was killed. Its lease is held until it is gone.',
    next: 'Wait. The driver has to let go of it; starting others on this GPU makes it worse.',
    shownBy: ({ session, process }) =>
      session?.state === 'unkillable' ? [`its state is ${process?.state ?? 'not readable'}`] : null,
  },
  {
    name: 'wsl-ceiling',
    confidence: 'likely',
    summary: 'Under WSL the amount of memory that can be pinned is capped.',
    next: 'Set a limit below the cap, or run on Linux itself.',
    shownBy: ({ kernel, session }) => {
      if (!kernel.wsl || !codeIs(session, 2, 800, 801)) return null;
      return [
        `the kernel is ${kernel.release}`,
        codeWords(session),
        `${formatBytes(session?.registeredBytes ?? 0)} were registered before`,
      ];
    },
  },
  {
    name: 'pages-not-given-back',
    confidence: 'certain',
    summary: 'The driver did not take the pages back, so the lease is kept.',
    next: 'End the process: the kernel frees pages and lease with it.',
    shownBy: ({ session }) => reasonIs(session, 'rollback_failed') ?? reasonIs(session, 'unregister_failed'),
  },
];

const unknown: Omit<Rule, 'shownBy'> = {
  name: 'unknown',
  confidence: 'possible',
  summary: 'No known cause shows in the evidence.',
  next: 'Save a bundle (`--bundle FILE`) and report it with the log of the worker.',
};

/** By name, in the order in which they are asked. */
export function ruleNames(): string[] {
  return rules.map(({ name }) => name);
}

/** The surest first. Empty where nothing is wrong. */
export function diagnose(evidence: Evidence): Finding[] {
  const found = rules.flatMap(({ shownBy, name, confidence, summary, next }) => {
    const shown = shownBy(evidence);
    return shown === null ? [] : [{ rule: name, confidence, summary, evidence: shown, next }];
  });
  if (found.length > 0) return found.sort((a, b) => rank[a.confidence] - rank[b.confidence]);
  if (!troubled(evidence.session)) return [];
  const { name, ...rest } = unknown;
  return [{ rule: name, ...rest, evidence: plainWords(evidence) }];
}

const rank = { certain: 0, likely: 1, possible: 2 } as const;

function plainWords({ process, session, kernelLog }: Evidence): string[] {
  const last = session?.lastEntered ?? null;
  return [
    ...(last === null
      ? []
      : [`the last call entered is region ${last.region} of ${last.regions}, ${formatBytes(last.bytes)}`]),
    ...(session?.reason ? [session.reason.message] : []),
    process === null
      ? 'the process is gone or not visible'
      : `the process is in state ${process.state ?? 'unknown'}`,
    kernelLog === null ? "the kernel's log may not be read here" : "the kernel's log names nothing",
    ...(process !== null && process.threads.every(({ stack }) => stack === null)
      ? ['kernel stacks are readable for root only']
      : []),
  ];
}

function reasonIs(session: SessionEvidence | null, kind: string): string[] | null {
  return session?.reason?.kind === kind ? [session.reason.message] : null;
}

function codeIs(session: SessionEvidence | null, ...codes: number[]): boolean {
  const code = session?.reason?.code;
  return code !== null && code !== undefined && codes.includes(code);
}

function codeWords(session: SessionEvidence | null): string {
  return session?.reason?.message ?? '';
}

function pinFailed(session: SessionEvidence | null): boolean {
  return codeIs(session, 2, 304);
}

function isInside(session: SessionEvidence | null): boolean {
  return typeof session?.lastEntered?.insideSeconds === 'number';
}

function troubled(session: SessionEvidence | null): boolean {
  if (session === null) return true;
  return (
    ['stalled', 'failed', 'abandoned', 'unkillable', 'unknown'].includes(session.state) || isInside(session)
  );
}
