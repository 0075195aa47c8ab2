/** Secrets that were planted everywhere do not leave. */
import { expect, test } from 'vitest';
import { redacted } from '../../../src/registration/redaction.ts';

test('secrets in the environment, in arguments and in paths are taken out', () => {
  const planted = {
    environment: { HF_TOKEN: 'hf_planted0environment' },
    command: ['serve', '--api-key planted-argument', '--token=planted-token', 'hf_planted0argument000'],
    path: '/home/maria/hf_planted0path0000/weights',
    url: 'https://maria:planted-password@example.org/x',
  };
  const text = JSON.stringify(redacted(planted, { home: '/home/maria', user: 'maria' }));
  expect(text).not.toMatch(/planted|maria/);
  expect(text).toContain('~/REDACTED/weights');
});
