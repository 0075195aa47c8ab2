/** A diagnostic bundle: one .tar.gz with what happened as JSON and as Markdown, redacted, ready for a bug report. */
import { writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import type { Finding } from './diagnosis.ts';
import type { Evidence } from './evidence.ts';
import { redacted, redactText, type Person } from './redaction.ts';
import type { RunRecord } from './run-record.ts';

export interface BundleContent {
  readonly title: string;
  readonly versions: Readonly<Record<string, string | number | null>>;
  readonly flags: readonly string[];
  readonly findings: readonly Finding[];
  readonly evidence: Evidence | null;
  readonly record: RunRecord | null;
  readonly workers: readonly unknown[];
}

/** Throws a SystemError where the file can't be written. An existing file is not replaced. */
export async function writeBundle(path: string, content: BundleContent, person: Person): Promise<void> {
  const json = JSON.stringify(redacted(content, person), null, 2);
  const text = redactText(markdownOf(content), person);
  const archive = Buffer.concat([member('bundle.json', json), member('bundle.md', text), Buffer.alloc(1024)]);
  await writeFile(path, gzipSync(archive), { mode: 0o600, flag: 'wx' });
}

function markdownOf({ title, versions, flags, findings, evidence, record, workers }: BundleContent): string {
  const list = (lines: readonly string[]): string => lines.map((line) => `- ${line}`).join('\n');
  return [
    `# ${title}`,
    list(Object.entries(versions).map(([name, value]) => `${name}: ${value ?? 'unknown'}`)),
    '## Diagnosis',
    ...findings.map(
      ({ summary, confidence, evidence: shown, next }) =>
        `**${summary}** (${confidence})\n\n${list(shown)}\n\nNext: ${next}`,
    ),
    ...(flags.length === 0 ? [] : ['## Flags', list(flags)]),
    ...(record === null
      ? []
      : ['## Timeline', list(record.events.map((event) => `\`${JSON.stringify(event)}\``))]),
    ...(workers.length === 0
      ? []
      : ['## Workers', list(workers.map((worker) => `\`${JSON.stringify(worker)}\``))]),
    ...(evidence === null ? [] : ['## Evidence', `\`\`\`json\n${JSON.stringify(evidence, null, 2)}\n\`\`\``]),
  ].join('\n\n');
}

/** One file of a tar archive, in the ustar form of POSIX.1-1988. */
function member(name: string, text: string): Buffer {
  const body = Buffer.from(text);
  const header = Buffer.alloc(512);
  const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, '0')}\0`;
  header.write(name, 0);
  header.write(octal(0o600, 8), 100);
  header.write(octal(0, 8), 108);
  header.write(octal(0, 8), 116);
  header.write(octal(body.length, 12), 124);
  header.write(octal(Math.floor(Date.now() / 1000), 12), 136);
  header.write('        ', 148);
  header.write('0', 156);
  header.write('ustar\0' + '00', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}
