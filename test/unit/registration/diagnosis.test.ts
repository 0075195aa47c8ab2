/**
 * Every rule by every case from the field, over a /proc that each case writes: a rule fires on its own case and is
 * silent on the others. The table is printed.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { diagnose, ruleNames } from '../../../src/registration/diagnosis.ts';
import {
  cgroupEvidence,
  machineEvidence,
  mountEvidence,
  processEvidence,
  type Evidence,
  type SessionEvidence,
} from '../../../src/registration/evidence.ts';
import { temporaryFolder } from '../../fixtures/store.ts';

const GiB = 1024 ** 3;
const pid = 4242;
const payloadPath = '/data/store/artifacts/a/weights.safetensors';

interface Case {
  readonly name: string;
  readonly rules: readonly string[];
  /** Files below /proc and /sys, on top of those of a process that sleeps in peace. */
  readonly files?: Readonly<Record<string, string>>;
  readonly session: Partial<SessionEvidence>;
  readonly payload?: Partial<NonNullable<Evidence['payload']>>;
  readonly others?: Evidence['others'];
  readonly kernelLog?: readonly string[] | null;
}

const place = { file: 'weights.safetensors', region: 3, regions: 13, chunk: 1, chunks: 1, bytes: GiB };
const inside: Partial<SessionEvidence> = {
  state: 'stalled',
  lastEntered: { ...place, insideSeconds: 95 },
};
const told = (
  kind: NonNullable<SessionEvidence['reason']>['kind'],
  code: number | null,
  bytes = GiB,
): Partial<SessionEvidence> => ({
  state: 'failed',
  reason: { kind, code, name: null, message: `it said ${code}` },
  lastEntered: { ...place, bytes, insideSeconds: null },
});
const threadInD = {
  'proc/4242/task/4243/status': 'Name:\tnode\nState:\tD (disk sleep)\n',
  'proc/4242/task/4243/wchan': 'uvm_va_range_pin',
};
const memlock = (bytes: number | 'unlimited', capabilities = '0'): Record<string, string> => ({
  'proc/4242/limits': `Limit  Soft Limit  Hard Limit  Units\nMax locked memory         ${bytes}  ${bytes}  bytes\n`,
  'proc/4242/status': `Name:\tnode\nState:\tS (sleeping)\nVmLck:\t0 kB\nVmPin:\t0 kB\nVmRSS:\t100 kB\nCapEff:\t${capabilities.padStart(16, '0')}\n`,
});
const group = (current: number, hits: number): Record<string, string> => ({
  'proc/4242/cgroup': '0::/container\n',
  'sys/fs/cgroup/container/memory.max': `${64 * GiB}\n`,
  'sys/fs/cgroup/container/memory.current': `${current}\n`,
  'sys/fs/cgroup/container/memory.events': `low 0\nhigh 0\nmax ${hits}\noom 0\noom_kill 0\n`,
});
const wsl = { 'proc/sys/kernel/osrelease': '5.15.167.4-microsoft-standard-WSL2\n' };
const mounted = (type: string): Record<string, string> => ({
  'proc/self/mountinfo': `22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:50 / /data rw,relatime - ${type} source rw\n`,
});

const cases: readonly Case[] = [
  { name: 'R1 a call that never returns, nothing else known', rules: ['unknown'], session: inside },
  { name: 'R1 the same of a worker without a log', rules: ['unknown'], session: { state: 'unknown' } },
  {
    name: 'R2 one call of 513 GiB, code 2',
    rules: ['region-too-large'],
    session: told('out_of_memory', 2, 513 * GiB),
  },
  {
    name: 'R3 code 1 while another process is inside',
    rules: ['migration-contention'],
    session: told('invalid_value', 1),
    others: [{ pid: 77, session: 's', inside: true, where: 'GPU 1, region 2 of 13' }],
  },
  {
    name: 'R3 others lease it, but none is inside',
    rules: ['unknown'],
    session: told('invalid_value', 1),
    others: [{ pid: 77, session: 's', inside: false, where: null }],
  },
  {
    name: 'R4 no read-only support',
    rules: ['no-read-only-support'],
    session: { ...told('unsupported', null), state: 'staging' },
  },
  { name: 'R5 712', rules: ['already-registered'], session: told('already_registered', 712) },
  {
    name: 'R6 801 whatever the size',
    rules: ['platform-forbids'],
    session: { ...told('platform_forbids', 801), state: 'staging' },
  },
  {
    name: 'R6 801 under WSL is its cap',
    rules: ['wsl-ceiling'],
    files: wsl,
    session: told('platform_forbids', 801),
  },
  { name: 'R7 a thread in state D', rules: ['driver-stuck'], files: threadInD, session: inside },
  {
    name: 'R7 an Xid in the log of the kernel',
    rules: ['driver-stuck'],
    session: inside,
    kernelLog: ['NVRM: Xid (PCI:0000:01:00): 119, pid=4242, Timeout after 6s'],
  },
  {
    name: 'R7 an Xid, but registration is over',
    rules: [],
    session: { state: 'registered' },
    kernelLog: ['NVRM: Xid (PCI:0000:01:00): 119, pid=4242, Timeout after 6s'],
  },
  { name: 'R8 alive after SIGKILL', rules: ['survives-kill'], session: { ...inside, state: 'unkillable' } },
  {
    name: 'R9 deaf to SIGTERM, no evidence why',
    rules: ['unknown'],
    session: { ...inside, ignoredTermination: true },
  },
  {
    name: 'R10 cannot be mapped',
    rules: ['cannot-map'],
    files: mounted('fuse.sshfs'),
    session: told('cannot_map', null),
  },
  {
    name: 'R10 cannot be pinned',
    rules: ['cannot-pin'],
    files: mounted('fuse.sshfs'),
    session: told('invalid_value', 1),
  },
  { name: 'R10 the same code on ext4', rules: ['unknown'], session: told('invalid_value', 1) },
  { name: 'R11 switched off', rules: ['disabled'], session: { ...told('disabled', null), state: 'staging' } },
  {
    name: 'R11 over the limit',
    rules: ['over-budget'],
    session: { ...told('over_budget', null), state: 'staging' },
  },
  {
    name: 'R12 memlock is too low',
    rules: ['memlock'],
    files: memlock(64 * 1024),
    session: told('out_of_memory', 2),
  },
  {
    name: 'R12 memlock is low, but does not apply',
    rules: ['unknown'],
    files: memlock(64 * 1024, '4000'),
    session: told('out_of_memory', 2),
  },
  {
    name: 'R12 memlock is enough',
    rules: ['unknown'],
    files: memlock('unlimited'),
    session: told('out_of_memory', 2),
  },
  {
    name: 'R12 memlock is low, and the call was not refused for it',
    rules: ['unknown'],
    files: memlock(64 * 1024),
    session: told('driver_error', 999),
  },
  {
    name: 'R12 the control group is full',
    rules: ['cgroup-memory'],
    files: group(64 * GiB, 12),
    session: told('out_of_memory', 2),
  },
  {
    name: 'R12 it has a limit, and room',
    rules: ['unknown'],
    files: group(20 * GiB, 0),
    session: told('out_of_memory', 2),
  },
  {
    name: 'a cold file on a slow disk',
    rules: ['cold-file'],
    session: inside,
    payload: { bytes: 40 * GiB, cachedBytes: 2 * GiB, readBytesPerSecond: 90 * 1024 ** 2 },
  },
  {
    name: 'a cold file that nobody reads',
    rules: ['unknown'],
    session: inside,
    payload: { bytes: 40 * GiB, cachedBytes: 2 * GiB, readBytesPerSecond: 0 },
  },
  { name: 'a rollback that failed', rules: ['pages-not-given-back'], session: told('rollback_failed', 999) },
  {
    name: 'all is well',
    rules: [],
    session: { state: 'registered', lastEntered: { ...place, insideSeconds: null } },
  },
];

function evidenceOf({ files = {}, session, payload = {}, others = [], kernelLog = [] }: Case): Evidence {
  const base = temporaryFolder();
  const all = {
    'proc/sys/kernel/osrelease': '6.8.0-45-generic\n',
    'proc/meminfo': 'MemTotal: 131072 kB\nMemAvailable: 65536 kB\n',
    ...mounted('ext4'),
    ...memlock('unlimited'),
    'proc/4242/task/4242/status': 'Name:\tnode\nState:\tS (sleeping)\n',
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(base, name)), { recursive: true });
    writeFileSync(join(base, name), text);
  }
  const machine = { proc: join(base, 'proc'), sys: join(base, 'sys'), kernelLog: () => kernelLog };
  return {
    pid,
    process: processEvidence(pid, machine),
    cgroup: cgroupEvidence(pid, machine),
    ...machineEvidence(machine),
    payload: {
      path: payloadPath,
      ...mountEvidence(payloadPath, machine),
      bytes: GiB,
      cachedBytes: GiB,
      readBytesPerSecond: 0,
      ...payload,
    },
    others,
    session: {
      state: 'registering',
      reason: null,
      lastEntered: null,
      planBytes: null,
      registeredBytes: 0,
      limitBytes: null,
      gpuName: 'Imitation',
      ignoredTermination: false,
      ...session,
    },
  };
}

test('each rule fires on its case and is silent on the others', () => {
  const rows = cases.map((one) => ({ one, fired: diagnose(evidenceOf(one)).map(({ rule }) => rule) }));
  const names = [...ruleNames(), 'unknown'];
  const width = Math.max(...cases.map(({ name }) => name.length));
  const lines = rows.map(({ one, fired }) => {
    const marks = names.map((name) => (fired.includes(name) ? 'x' : '.')).join(' ');
    return `${one.name.padEnd(width)}  ${marks}`;
  });
  const legend = names.map((name, index) => `${'  '.repeat(index)}| ${name}`);
  const head = legend.map((line) => `${' '.repeat(width)}  ${line}`);
  process.stdout.write(`${[...head, ...lines].join('\n')}\n`);
  for (const { one, fired } of rows)
    expect({ case: one.name, fired }).toEqual({ case: one.name, fired: one.rules });
  expect(new Set(cases.flatMap(({ rules }) => rules))).toEqual(new Set(names));
});

test('every finding names its evidence and a next step', () => {
  for (const one of cases) {
    for (const { evidence, next, summary } of diagnose(evidenceOf(one))) {
      expect(
        evidence.filter((line) => line !== ''),
        one.name,
      ).not.toEqual([]);
      expect([next, summary]).not.toContain('');
    }
  }
});

test("the kernel's log that may not be read is told so, and is no proof", () => {
  const [finding] = diagnose(evidenceOf({ name: '', rules: [], session: inside, kernelLog: null }));
  expect(finding).toMatchObject({ rule: 'unknown', confidence: 'possible' });
  expect(finding?.evidence.join()).toContain('may not be read');
});
