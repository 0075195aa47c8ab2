/** What a made-up host answers where a test says nothing else. */
import type { VerificationEvent } from '../../../src/contract/artifact-schemas.ts';
import type { StoreCheck, StorePlan } from '../../../src/contract/store-schemas.ts';
import { gib } from './units.ts';

export function checkOf(plan: StorePlan): StoreCheck {
  const problems: StoreCheck['problems'][number][] = [];
  if (plan.admission === 'serialized' && plan.maxStoreBytes === null) {
    problems.push({
      field: 'maxStoreBytes',
      severity: 'error',
      message: 'Serialized admission needs a store limit.',
    });
  }
  if (plan.path !== '' && !plan.path.startsWith('/')) {
    problems.push({ field: 'path', severity: 'error', message: 'The path must begin with / or ~.' });
  }
  const isNowhere = !plan.path.startsWith('/');
  const policy = {
    eviction: 'none',
    max_store_bytes: plan.maxStoreBytes,
    policy_version: 1,
    schema_version: 2,
  };
  return {
    path: isNowhere ? null : plan.path,
    found: 'nothing',
    filesystem: isNowhere ? null : { type: 'ext4', class: 'disk' },
    owner: isNowhere ? null : { uid: 1000, name: 'ada', isYou: true },
    mode: isNowhere ? null : '0755',
    nearestFolder: isNowhere ? null : '/data',
    freeBytes: isNowhere ? null : 900 * gib,
    problems,
    policyDocument: problems.some(({ field }) => field === 'maxStoreBytes') ? null : JSON.stringify(policy),
    existingPolicyDocument: null,
  };
}

export function verificationOf(key: string): VerificationEvent[] {
  const totalBytes = 20 * gib;
  const progress = Array.from({ length: 20 }, (_, n): VerificationEvent => {
    const bytesPerSecond = n < 2 ? null : 2.1 * gib;
    return {
      type: 'progress',
      doneBytes: n * gib,
      totalBytes,
      bytesPerSecond,
      secondsLeft: bytesPerSecond === null ? null : (20 - n) / 2.1,
    };
  });
  const result = {
    key,
    status: 'valid',
    level: 'full_checksum',
    bytes: totalBytes,
    elapsedMs: 9500,
    atMs: Date.now(),
    failure: null,
  } as const;
  return [...progress, { type: 'result', result }];
}
