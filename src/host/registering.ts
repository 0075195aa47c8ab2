/**
 * Starting a registration: what is set for the GPU decides first, and only then a registrar is started. Where the
 * answer is known without the driver, there is no process and no call: disabled, refused by this platform before,
 * or a process stuck on the GPU.
 */
import { failed, succeeded, type Outcome } from '../contract/failure.ts';
import type { Gpu } from '../contract/gpu-schemas.ts';
import { stuckFailure } from '../registration/gpu-probe.ts';
import { reason, type Reason, type RegistrarRequest } from '../registration/registrar-protocol.ts';
import { RegistrationSession, stuckOn, type SessionOptions } from '../registration/registration-session.ts';
import { newSession } from '../registration/run-record.ts';
import type { GpuRegistry } from './gpu-registry.ts';

export interface RegistrationWish {
  readonly root: string;
  readonly key: string;
  readonly gpu: Gpu;
  readonly chunkBytes: number;
  readonly parallel: boolean;
}

export type Started =
  | { readonly kind: 'running'; readonly session: RegistrationSession }
  /** Nothing was started: workers stage then, and so would we. */
  | { readonly kind: 'staging'; readonly id: string; readonly reason: Reason };

/** Fails, retryably, where a process is stuck on this GPU. */
export function startRegistration(
  gpus: GpuRegistry,
  wish: RegistrationWish,
  options: SessionOptions,
): Outcome<Started> {
  const { root, key, gpu, chunkBytes, parallel } = wish;
  const id = newSession(Date.now());
  const { mode, limitGib } = gpus.settingOf(gpu.uuid);
  if (mode === 'disabled') {
    const words = `Registration is disabled for ${gpu.name}, so no CUDA call was made. Bounded staging is what a worker uses then.`;
    return succeeded({ kind: 'staging', id, reason: reason('disabled', words) });
  }
  if (gpu.forbidden) {
    const words = `This platform refused registration for ${gpu.name} with this driver before, so it was not tried again. Bounded staging is used. A new driver version is tried anew.`;
    return succeeded({ kind: 'staging', id, reason: reason('platform_forbids', words) });
  }
  const stuck = stuckOn(gpu.uuid, gpus.runs.live());
  if (stuck !== null) return failed(stuckFailure(stuck));
  const record = gpus.runs.begin({
    session: id,
    kind: 'registration',
    root,
    key,
    gpus: [gpu.uuid],
    gpuName: gpu.name,
    supervisor: process.pid,
    stallAfterMs: options.stallAfterMs,
    library: gpus.library,
    atMs: Date.now(),
  });
  const request: RegistrarRequest = {
    session: id,
    root,
    key,
    gpu: gpu.uuid,
    libraries: gpus.libraries,
    limitBytes: limitGib === 0 ? null : Math.floor(limitGib * 1024 ** 3),
    chunkBytes,
    parallel,
    admissionFolder: gpus.runs.admission,
    record,
  };
  const session = new RegistrationSession(request, options);
  return succeeded({ kind: 'running', session });
}
