/** The README's Python example, taken from the README and run as it stands there. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../fixtures/store.ts';
import { pythonEnvironment } from './environment.ts';

const checkout = resolve(import.meta.dirname, '../..');

/** The wheel's parent package needs vLLM itself; the rest of the suite stubs it in the same way. */
const stub = (packages: string): string => `
import sys, types
sys.path.insert(0, ${JSON.stringify(packages)})
parent = types.ModuleType("vllm_omni")
parent.__path__ = [${JSON.stringify(join(packages, 'vllm_omni'))}]
sys.modules["vllm_omni"] = parent
`;

test('loads what our producer built', () => {
  const readme = readFileSync(join(checkout, 'README.md'), 'utf8');
  const [, example] = /```python\n([\s\S]*?)```/.exec(readme) ?? [];
  if (example === undefined) throw new Error('the README has no Python example');
  const { interpreter, packages, env } = pythonEnvironment();
  const base = temporaryFolder();
  const weightroom = (...words: string[]): Record<string, unknown> =>
    JSON.parse(
      execFileSync('npx', ['weightroom', ...words, '--json'], {
        cwd: checkout,
        stdio: ['ignore', 'pipe', 'ignore'],
      }).toString(),
    ) as Record<string, unknown>;
  const checkpoint = join(base, 'checkpoint');
  mkdirSync(checkpoint);
  const header = Buffer.from('{"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(join(checkpoint, 'model.safetensors'), Buffer.concat([length, header, Buffer.alloc(24)]));
  const root = join(base, 'store');
  weightroom('domain', 'create', root);
  const { key } = weightroom('build', checkpoint, '--domain', root, '--representation', 'bf16');

  const script = join(base, 'example.py');
  writeFileSync(script, stub(packages) + example);
  const run = spawnSync(interpreter, [script, root, String(key)], { cwd: checkout, env });
  expect(run.stderr.toString()).not.toContain('Traceback');
  expect(run.stdout.toString()).toBe('a.weight (2, 3) torch.bfloat16\n');
  expect(run.status).toBe(0);
});
