/** What a failed register call means for the registration. Source: cuda.h (CUresult), registration spec, section 2. */
import type { CudaStatus } from '#native';
import { reason, type Reason, type ReasonKind } from './registrar-protocol.ts';

interface Meaning {
  readonly kind: ReasonKind;
  readonly words: string;
  /** Staging is what workers do then, and nothing is broken. */
  readonly stages?: boolean;
}

const meanings: Readonly<Record<number, Meaning>> = {
  1: { kind: 'invalid_value', words: 'The driver calls the range invalid.' },
  2: { kind: 'out_of_memory', words: 'The driver could not pin the range.' },
  712: {
    kind: 'already_registered',
    words: 'Pages of the range are pinned by this process already.',
  },
  800: {
    kind: 'platform_forbids',
    words: 'This platform does not permit registering host memory. Bounded staging is used.',
    stages: true,
  },
  801: {
    kind: 'platform_forbids',
    words:
      'This platform forbids registering host memory for this GPU, although the GPU supports it: confidential computing and some virtual machines do that, whatever the size. Bounded staging is used.',
    stages: true,
  },
};

/** `contended`: another process was at the same file, so that the same call alone can succeed. */
export function meaningOf(status: CudaStatus, contended: boolean): { reason: Reason; stages: boolean } {
  const {
    kind,
    words,
    stages = false,
  } = meanings[status.code] ?? {
    kind: 'driver_error' as const,
    words: 'The driver refused the range.',
  };
  const transient = contended && (kind === 'out_of_memory' || kind === 'invalid_value');
  const why = transient
    ? ' Another process was registering or using the same file: alone it can succeed.'
    : '';
  return {
    stages,
    reason: reason(kind, `${words}${why} (${status.call}: ${status.code} ${status.name}, ${status.text})`, {
      code: status.code,
      name: status.name,
      transient,
    }),
  };
}
