/** GPUs, registrations of artifacts with them, workers of others, and why one of them does not get on. */
import { z } from 'zod';
import { amount, artifactKey, failureValue, knownRoot, listOf, moment, pathText } from './values.ts';

export const gpuUuid = z.string().regex(/^(GPU|MIG)-[0-9a-fA-F-]{8,64}$/, 'a UUID as nvidia-smi writes it');
export const gpuModes = ['auto', 'disabled'] as const;
/** GiB for each worker over the page-aligned total; 0: no limit, which is not an off switch. */
export const limitGib = z.number().nonnegative().max(1_000_000);

export const gpuSetting = z.object({ uuid: z.string(), mode: z.enum(gpuModes), limitGib });
export type GpuSetting = z.infer<typeof gpuSetting>;

export const gpu = z.object({
  index: amount,
  uuid: z.string(),
  name: z.string(),
  pciAddress: z.string(),
  totalBytes: amount,
  /** Attribute 113; without it nothing is registered and workers stage. */
  readOnlyRegister: z.boolean(),
  mode: z.enum(gpuModes),
  limitGib,
  /** This platform refused registration for this GPU and driver before; it is not tried again. */
  forbidden: z.boolean(),
  /** Compute processes on it, from the management library; null: not asked. */
  processes: listOf(z.object({ pid: amount, usedBytes: amount.nullable() })).nullable(),
  /** Now, or from before because it is disabled and so not asked. */
  asked: z.boolean(),
});
export type Gpu = z.infer<typeof gpu>;

export const gpuListing = z.object({
  gpus: listOf(gpu),
  library: z.string().nullable(),
  /** An imitation of a driver: to be labelled wherever it shows. */
  simulated: z.boolean(),
  driverVersion: amount.nullable(),
  driver: z.string().nullable(),
  /** What the mode switch governs, and what else there is to know. */
  notes: listOf(z.string()),
  /** No driver, a driver that refuses, or a probe that is stuck: what is known from before is listed all the same. */
  failure: failureValue.nullable(),
});
export type GpuListing = z.infer<typeof gpuListing>;

/** `rescan`: asks disabled GPUs too. */
export const gpuListRequest = z.strictObject({ rescan: z.boolean().default(false) }).prefault({});
export const gpuModeChange = z.strictObject({
  uuid: gpuUuid,
  mode: z.enum(gpuModes).optional(),
  limitGib: limitGib.optional(),
});
export const gpuFlagsRequest = z.strictObject({ uuids: z.array(gpuUuid).max(64) });
export const gpuFlags = z.object({ flags: listOf(z.string()), remarks: listOf(z.string()) });

export const registrationStates = [
  'planning',
  'waiting-for-admission',
  'registering',
  'registered',
  'staging',
  'failed',
  'stalled',
  'abandoned',
  'unkillable',
] as const;

export const registrationRequest = z.strictObject({
  root: knownRoot,
  key: artifactKey,
  gpu: gpuUuid,
  chunkBytes: z
    .int()
    .min(4096)
    .max(64 * 1024 ** 3)
    .default(1024 ** 3),
  stallAfterMs: z.int().min(100).max(86_400_000).default(30_000),
  /** Several registrars inside one file at once. */
  parallel: z.boolean().default(false),
});

/** A call into the driver: a block of the lane. */
export const registrationCall = z.object({
  call: z.enum(['register', 'unregister']),
  file: z.string(),
  region: amount,
  regions: amount,
  chunk: amount,
  chunks: amount,
  bytes: amount,
  enteredAtMs: moment,
  /** Null while it is out. */
  seconds: z.number().nullable(),
  code: z.int().nullable(),
});
export type RegistrationCall = z.infer<typeof registrationCall>;

export const diagnosisFinding = z.object({
  rule: z.string(),
  confidence: z.enum(['certain', 'likely', 'possible']),
  /** What it is, in a sentence. */
  summary: z.string(),
  /** What led to it. */
  evidence: listOf(z.string()),
  /** What to do next. */
  next: z.string(),
});
export type DiagnosisFinding = z.infer<typeof diagnosisFinding>;

export const registrationReason = z.object({
  kind: z.string(),
  message: z.string(),
  code: z.int().nullable(),
  name: z.string().nullable(),
  transient: z.boolean(),
  details: z.record(z.string(), z.json()),
});

export const registrationId = z.string().min(1).max(64);

export const registration = z.object({
  id: registrationId,
  root: z.string(),
  key: z.string(),
  gpu: z.string(),
  gpuName: z.string(),
  simulated: z.boolean(),
  state: z.enum(registrationStates),
  slow: z.boolean(),
  pid: amount.nullable(),
  gone: z.boolean(),
  attempt: amount,
  step: z.string().nullable(),
  startedAtMs: moment,
  endedAtMs: moment.nullable(),
  regions: amount.nullable(),
  chunks: amount.nullable(),
  bytes: amount.nullable(),
  registeredChunks: amount,
  registeredBytes: amount,
  waitingFor: z
    .object({ file: z.string(), holders: listOf(z.object({ pid: amount, command: z.string() })) })
    .nullable(),
  lastEntered: registrationCall.nullable(),
  reason: registrationReason.nullable(),
  leaseReleased: z.boolean(),
  /** It was asked to end and did not: killing it is the next, riskier step. */
  ignoredTermination: z.boolean(),
  diagnosis: listOf(diagnosisFinding),
});
export type Registration = z.infer<typeof registration>;

export const registrationList = z.object({ registrations: listOf(registration) });
export const registrationReference = z.strictObject({ id: registrationId });
/** `force`: SIGKILL where SIGTERM does not help. `disable`: and switch this GPU off. */
export const registrationEnd = z.strictObject({
  id: registrationId,
  force: z.boolean().default(false),
  disable: z.boolean().default(false),
});
export const registrationEnded = z.object({ gone: z.boolean() });

export const registrationEvent = z.discriminatedUnion('type', [
  /** First, and at every change of the session. */
  z.object({ type: z.literal('state'), registration }),
  /** First all calls so far, then each as it is entered and as it comes back. */
  z.object({ type: z.literal('calls'), calls: listOf(registrationCall) }),
]);
export type RegistrationEvent = z.infer<typeof registrationEvent>;

/** A vLLM-Omni process that this program did not start. */
export const worker = z.object({
  pid: amount,
  /** Redacted. */
  command: z.string(),
  leases: listOf(z.object({ root: z.string(), key: z.string() })),
  foundBy: listOf(z.enum(['lease', 'command'])),
});
export type Worker = z.infer<typeof worker>;
export const workerList = z.object({ workers: listOf(worker) });

export const workerProgress = z.object({
  /** As the log names it. */
  worker: z.string(),
  pid: amount.nullable(),
  state: z.enum(['unknown', 'registering', 'registered', 'staging', 'failed', 'unregistered']),
  regions: amount.nullable(),
  /** The last range that was entered, and whether it was told to be done. */
  lastEntered: z
    .object({
      region: amount,
      regions: amount,
      bytes: amount,
      done: z.boolean(),
      seconds: z.number().nullable(),
    })
    .nullable(),
  registeredBytes: amount,
  /** Ranges that are not done. */
  left: amount.nullable(),
  /** Of the newest line in the log's own words; null: its lines carry no time. */
  loggedAt: z.string().nullable(),
  /** Since this program read it; null: it stood there before. */
  readAtMs: moment.nullable(),
  reason: z.string().nullable(),
});
export type WorkerProgress = z.infer<typeof workerProgress>;

export const logRequest = z.strictObject({ path: pathText });
export const logEvent = z.object({ workers: listOf(workerProgress) });

/** A registration of this program's kind, or any process. */
export const diagnosisRequest = z
  .strictObject({
    id: registrationId.optional(),
    pid: z.int().min(1).max(4_194_304).optional(),
  })
  .refine(({ id, pid }) => (id === undefined) !== (pid === undefined), 'either an id or a pid is needed');
export const diagnosis = z.object({
  findings: listOf(diagnosisFinding),
  /** Everything that was looked at, as JSON. */
  evidence: z.record(z.string(), z.json()),
});
export type Diagnosis = z.infer<typeof diagnosis>;

export const bundleRequest = z.strictObject({ id: registrationId, path: pathText });
