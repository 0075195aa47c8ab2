/** The Python that people are shown, in the README and on an artifact's page, run as it stands there. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { pythonSnippet } from '../../renderer/words/python-snippet.ts';
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

interface Example {
  readonly base: string;
  readonly root: string;
  readonly key: string;
}

function builtArtifact(): Example {
  const base = temporaryFolder();
  const checkpoint = join(base, 'checkpoint');
  mkdirSync(checkpoint);
  const header = Buffer.from('{"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(join(checkpoint, 'model.safetensors'), Buffer.concat([length, header, Buffer.alloc(24)]));
  // A name that a snippet has to quote.
  const root = join(base, `store "of" Zoë's`);
  weightroom('domain', 'create', root);
  const { key } = weightroom('build', checkpoint, '--domain', root, '--representation', 'bf16');
  return { base, root, key: String(key) };
}

function weightroom(...words: string[]): Record<string, unknown> {
  const answer = execFileSync('npx', ['weightroom', ...words, '--json'], {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return JSON.parse(answer.toString()) as Record<string, unknown>;
}

function runPython(base: string, text: string, ...args: string[]): void {
  const { interpreter, packages, env } = pythonEnvironment();
  const script = join(base, 'example.py');
  writeFileSync(script, stub(packages) + text);
  const run = spawnSync(interpreter, [script, ...args], { cwd: checkout, env });
  expect(run.stderr.toString()).not.toContain('Traceback');
  expect(run.stdout.toString()).toBe('a.weight (2, 3) torch.bfloat16\n');
  expect(run.status).toBe(0);
}

test("the README's example maps what our producer built", () => {
  const readme = readFileSync(join(checkout, 'README.md'), 'utf8');
  const [, example] = /```python\n([\s\S]*?)```/.exec(readme) ?? [];
  if (example === undefined) throw new Error('the README has no Python example');
  const { base, root, key } = builtArtifact();
  runPython(base, example, root, key);
});

test("the snippet of an artifact's page reads its files, by their names and by looking for them", () => {
  const { base, root, key } = builtArtifact();
  const { files } = weightroom('show', root, key) as { files: { file_name: string }[] };
  const path = join(root, 'artifacts', key);
  const names = files.map((file) => file.file_name);
  expect(names).toHaveLength(1);
  runPython(base, pythonSnippet(path, names));
  runPython(base, pythonSnippet(path, []));
});
