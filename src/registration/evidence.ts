/**
 * Evidence about a process that registers, from outside. Nothing here touches the process's memory: files such as
 * cmdline, environ and maps wait for the lock that a stuck registration holds, so they are left alone. What can't
 * be read is null, and that is said. Source: registration specification, section 3; proc(5).
 */
import { join } from 'node:path';
import { mountOf, parseMounts } from '../store/filesystem-type.ts';
import { fieldsOf, kibibytes, namesIn, readText } from './proc-files.ts';
import type { Place, Reason } from './registrar-protocol.ts';

export interface ThreadEvidence {
  readonly tid: number;
  readonly state: string | null;
  /** Where in the kernel it sleeps; null: not readable, or it sleeps nowhere. */
  readonly wchan: string | null;
  readonly syscall: string | null;
  /** Readable for root only. */
  readonly stack: string | null;
}

export interface Evidence {
  readonly pid: number | null;
  readonly process: {
    readonly state: string | null;
    readonly lockedBytes: number | null;
    readonly pinnedBytes: number | null;
    readonly residentBytes: number | null;
    readonly threads: readonly ThreadEvidence[];
    /** Soft limit; null: none. `unknown` where it can't be read. */
    readonly memlockBytes: number | null | 'unknown';
    /** CAP_IPC_LOCK: the memlock limit does not apply. */
    readonly mayLockFreely: boolean;
  } | null;
  readonly cgroup: {
    readonly maxBytes: number | null;
    readonly currentBytes: number | null;
    readonly fileBytes: number | null;
    /** How often the limit was hit. */
    readonly maxEvents: number | null;
    readonly oomEvents: number | null;
  } | null;
  readonly memory: {
    readonly availableBytes: number | null;
    readonly mlockedBytes: number | null;
    readonly unevictableBytes: number | null;
    readonly dirtyBytes: number | null;
    readonly totalBytes: number | null;
  };
  /** `some avg10` in percent. */
  readonly pressure: {
    readonly cpu: number | null;
    readonly memory: number | null;
    readonly io: number | null;
  };
  readonly kernel: { readonly release: string | null; readonly wsl: boolean; readonly driver: string | null };
  /** Lines that name the driver, a hung task or migration; null: the kernel's log may not be read. */
  readonly kernelLog: readonly string[] | null;
  readonly payload: {
    readonly path: string;
    readonly filesystem: string | null;
    readonly options: string | null;
    readonly bytes: number | null;
    readonly cachedBytes: number | null;
    /** Read from the disk by the process during the running call, per second; null: not known. */
    readonly readBytesPerSecond: number | null;
  } | null;
  /** Others that hold a lease on the artifact or register it, with where they are. */
  readonly others: readonly {
    readonly pid: number;
    readonly session: string | null;
    readonly inside: boolean;
    readonly where: string | null;
  }[];
  readonly session: SessionEvidence | null;
}

/** What our own record or a worker's log says. */
export interface SessionEvidence {
  readonly state: string;
  readonly reason: Pick<Reason, 'kind' | 'code' | 'name' | 'message'> | null;
  readonly lastEntered: (Place & { readonly insideSeconds: number | null }) | null;
  readonly planBytes: number | null;
  readonly registeredBytes: number;
  readonly limitBytes: number | null;
  readonly gpuName: string | null;
  readonly ignoredTermination: boolean;
}

/** Where the machine's files are, so that tests can give their own. */
export interface Machine {
  readonly proc: string;
  readonly sys: string;
  /** Null: it may not be read. */
  readonly kernelLog: () => readonly string[] | null;
}

const capIpcLock = 14n;
const mostThreads = 64;

export function processEvidence(pid: number, { proc }: Machine): Evidence['process'] {
  const folder = join(proc, String(pid));
  const status = fieldsOf(readText(join(folder, 'status')));
  if (status.size === 0) return null;
  const threads = namesIn(join(folder, 'task'))
    .slice(0, mostThreads)
    .map((tid) => threadEvidence(join(folder, 'task', tid), Number(tid)));
  const capabilities = status.get('CapEff');
  return {
    state: status.get('State')?.slice(0, 1) ?? null,
    lockedBytes: kibibytes(status.get('VmLck')),
    pinnedBytes: kibibytes(status.get('VmPin')),
    residentBytes: kibibytes(status.get('VmRSS')),
    threads,
    memlockBytes: memlockOf(readText(join(folder, 'limits'))),
    mayLockFreely: capabilities !== undefined && ((BigInt(`0x${capabilities}`) >> capIpcLock) & 1n) === 1n,
  };
}

function threadEvidence(folder: string, tid: number): ThreadEvidence {
  const wchan = readText(join(folder, 'wchan'))?.trim() ?? null;
  return {
    tid,
    state:
      fieldsOf(readText(join(folder, 'status')))
        .get('State')
        ?.slice(0, 1) ?? null,
    wchan: wchan === '0' || wchan === '' ? null : wchan,
    syscall: readText(join(folder, 'syscall'))?.trim() ?? null,
    stack: readText(join(folder, 'stack'))?.trim() ?? null,
  };
}

function memlockOf(limits: string | null): number | null | 'unknown' {
  const [, soft] = /^Max locked memory\s+(\S+)/m.exec(limits ?? '') ?? [];
  if (soft === undefined) return 'unknown';
  return soft === 'unlimited' ? null : Number(soft);
}

/** Of cgroup v2; of the nearest group with a limit. */
export function cgroupEvidence(pid: number, { proc, sys }: Machine): Evidence['cgroup'] {
  const own = /^0::(.*)$/m.exec(readText(join(proc, String(pid), 'cgroup')) ?? '')?.[1];
  if (own === undefined) return null;
  const root = join(sys, 'fs/cgroup');
  for (let group = own; ; group = group.slice(0, group.lastIndexOf('/'))) {
    const folder = join(root, group);
    const max = readText(join(folder, 'memory.max'))?.trim();
    if (max !== undefined && max !== 'max') return groupEvidence(folder, Number(max));
    if (group === '' || group === '/') return null;
  }
}

function groupEvidence(folder: string, maxBytes: number): Evidence['cgroup'] {
  const words = (name: string): ReadonlyMap<string, string> =>
    fieldsOf(readText(join(folder, name))?.replaceAll(' ', ':') ?? null);
  const number = (text: string | null | undefined): number | null =>
    text === null || text === undefined ? null : Number(text.trim());
  const events = words('memory.events');
  return {
    maxBytes,
    currentBytes: number(readText(join(folder, 'memory.current'))),
    fileBytes: number(words('memory.stat').get('file')),
    maxEvents: number(events.get('max')),
    oomEvents: number(events.get('oom')),
  };
}

export function machineEvidence({
  proc,
  kernelLog,
}: Machine): Pick<Evidence, 'memory' | 'pressure' | 'kernel' | 'kernelLog'> {
  const memory = fieldsOf(readText(join(proc, 'meminfo')));
  const pressure = (name: string): number | null => {
    const [, average] = /^some avg10=([\d.]+)/.exec(readText(join(proc, 'pressure', name)) ?? '') ?? [];
    return average === undefined ? null : Number(average);
  };
  const release = readText(join(proc, 'sys/kernel/osrelease'))?.trim() ?? null;
  return {
    memory: {
      availableBytes: kibibytes(memory.get('MemAvailable')),
      mlockedBytes: kibibytes(memory.get('Mlocked')),
      unevictableBytes: kibibytes(memory.get('Unevictable')),
      dirtyBytes: kibibytes(memory.get('Dirty')),
      totalBytes: kibibytes(memory.get('MemTotal')),
    },
    pressure: { cpu: pressure('cpu'), memory: pressure('memory'), io: pressure('io') },
    kernel: {
      release,
      wsl: /microsoft|wsl/i.test(release ?? ''),
      driver: readText(join(proc, 'driver/nvidia/version'))?.split('\n')[0]?.trim() ?? null,
    },
    kernelLog:
      kernelLog()
        ?.filter((line) => telling.test(line))
        .slice(-20) ?? null,
  };
}

const telling = /NVRM|Xid|nvidia|blocked for more than|hung task|page migration|migrat\w* fail/i;

export function mountEvidence(
  path: string,
  { proc }: Machine,
): { filesystem: string | null; options: string | null } {
  const mount = mountOf(path, parseMounts(readText(join(proc, 'self/mountinfo')) ?? ''));
  return { filesystem: mount?.type ?? null, options: mount?.options ?? null };
}

/** Bytes that a process has read from disks so far. */
export function diskReads(pid: number, { proc }: Machine): number | null {
  const value = fieldsOf(readText(join(proc, String(pid), 'io'))).get('read_bytes');
  return value === undefined ? null : Number(value);
}
