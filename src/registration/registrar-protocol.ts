/**
 * What the registrar process and its supervisor say to each other: one request as a line of JSON on the child's
 * stdin, then events, one a line, on its stdout and, before each call into the driver, in its run record. The
 * line `release` on stdin asks a registrar that holds its pages to let them go; the end of stdin means go.
 */
import type { Detail } from '../contract/failure.ts';

export interface RegistrarRequest {
  readonly session: string;
  /** Absolute path of a domain that is there. */
  readonly root: string;
  readonly key: string;
  /** The only GPU that the child may see. */
  readonly gpu: string;
  readonly libraries: readonly string[];
  /** Over the page-aligned total; null: no ceiling. */
  readonly limitBytes: number | null;
  readonly chunkBytes: number;
  /** Several registrars inside one file at once, instead of one after another. */
  readonly parallel: boolean;
  /** Where the locks for taking turns lie: never inside a domain. */
  readonly admissionFolder: string;
  /** Of the run record. */
  readonly record: string;
}

/** Why a registration did not come to be, or did not stay. */
export const reasonKinds = [
  'disabled',
  'over_budget',
  'unsupported',
  'platform_forbids',
  'no_driver',
  'no_such_gpu',
  'lease_unavailable',
  'cannot_map',
  'cannot_pin',
  'already_registered',
  'out_of_memory',
  'invalid_value',
  'driver_error',
  'rollback_failed',
  'unregister_failed',
  'stuck_before',
  'crashed',
  'ended',
] as const;
export type ReasonKind = (typeof reasonKinds)[number];

export interface Reason {
  readonly kind: ReasonKind;
  /** For a person: what, why, what to do. */
  readonly message: string;
  /** CUresult, where the driver said so. */
  readonly code: number | null;
  readonly name: string | null;
  /** The same registration can succeed later, with nothing repaired. */
  readonly transient: boolean;
  readonly details: { readonly [key: string]: Detail };
}

/** Where in the plan a call is. */
export interface Place {
  readonly file: string;
  readonly region: number;
  readonly regions: number;
  readonly chunk: number;
  readonly chunks: number;
  readonly bytes: number;
}

export const steps = [
  'opening-lease',
  'mapping',
  'loading-driver',
  'initialising-driver',
  'asking-device',
  'opening-device',
  'closing-device',
] as const;
export type Step = (typeof steps)[number];

export type RegistrarEvent = Stamp &
  (
    | { readonly event: 'started'; readonly pid: number; readonly startTicks: string | null }
    | { readonly event: 'step'; readonly step: Step }
    | {
        readonly event: 'plan';
        readonly regions: number;
        readonly chunks: number;
        readonly bytes: number;
        readonly files: readonly PlannedFile[];
      }
    | {
        readonly event: 'driver';
        readonly path: string;
        readonly simulated: boolean;
        readonly version: number;
      }
    | {
        readonly event: 'waiting';
        readonly file: string;
        /** Who is inside the file now, as far as the kernel shows. */
        readonly holders: readonly { readonly pid: number; readonly command: string }[];
      }
    | ({ readonly event: 'entering'; readonly call: 'register' | 'unregister' } & Place)
    | ({
        readonly event: 'returned';
        readonly call: 'register' | 'unregister';
        readonly code: number;
        readonly seconds: number;
      } & Place)
    | {
        readonly event: 'result';
        readonly state: 'registered' | 'staging' | 'failed';
        readonly reason: Reason | null;
        /** Pages are registered still and can't be given back: the lease stays until the process is gone. */
        readonly leaseKept: boolean;
      }
    | { readonly event: 'released'; readonly reason: Reason | null; readonly leaseKept: boolean }
  );

export interface PlannedFile {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  readonly filesystem: string;
}

export interface Stamp {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Of the machine's monotonic clock, which all processes share. */
  readonly monotonicMs: number;
}

/** The record's first line, written by whoever starts the child. */
export interface RecordHead {
  readonly session: string;
  readonly kind: 'registration' | 'probe';
  readonly root: string | null;
  readonly key: string | null;
  /** Empty: all. */
  readonly gpus: readonly string[];
  readonly gpuName: string | null;
  readonly supervisor: number;
  readonly stallAfterMs: number;
  readonly library: string | null;
  readonly atMs: number;
}

export const releaseLine = 'release';

/** A call into the driver that is still out when the child is told to go keeps it this long, and no longer. */
export const callGraceMs = 1000;

/** The machine's monotonic clock in milliseconds: one for all processes, unlike `performance.now()`. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Of `Reason`. */
export function reason(
  kind: ReasonKind,
  message: string,
  more: Partial<Omit<Reason, 'kind' | 'message'>> = {},
): Reason {
  return { kind, message, code: null, name: null, transient: false, details: {}, ...more };
}
