/**
 * One .safetensors file: opened, recognised, and its header read strictly. What is not weights at all (a Git
 * LFS pointer, a saved web page, a PyTorch archive) is told apart from weights that are broken.
 */
import { readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { native, isSystemError, type Stat, type SystemError } from '#native';
import { isRegularFile } from '../store/metadata-file.ts';
import { maxHeaderBytes, PayloadError, readHeader, type PayloadHeader } from '../store/safetensors.ts';
import { problem, systemProblem, type CheckpointProblem } from './checkpoint-problem.ts';
import { openForReading, stampOf, type SourceFile } from './source-file.ts';

export type WeightFileReading =
  { readonly file: SourceFile; readonly header: PayloadHeader } | { readonly problem: CheckpointProblem };

const headBytes = 512;

/** Reads the header of `name`, relative to `folder`. Never throws for what the file is or is not. */
export async function readWeightFile(folder: string, name: string): Promise<WeightFileReading> {
  const path = join(folder, name);
  let fd: number;
  try {
    fd = openForReading(path);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return { problem: (await danglingLink(path, name, error)) ?? systemProblem(name, name, error) };
  }
  try {
    const stat = native.fstat(fd);
    const refused = refuseKind(name, stat) ?? recognise(name, readHead(fd));
    if (refused !== null) return { problem: refused };
    const header = await readHeader(fd, stat.sizeBytes);
    return { file: { name, path, sizeBytes: stat.sizeBytes, stamp: stampOf(stat) }, header };
  } catch (error) {
    if (error instanceof PayloadError) return { problem: headerProblem(name, readHead(fd), error) };
    if (isSystemError(error)) return { problem: systemProblem(name, name, error) };
    throw error;
  } finally {
    native.close(fd);
  }
}

/** An interrupted Hub download, or one whose cache was cleaned, leaves a link to a blob that is not there. */
async function danglingLink(
  path: string,
  name: string,
  error: SystemError,
): Promise<CheckpointProblem | null> {
  if (error.code !== 'ENOENT') return null;
  let target: string;
  try {
    target = await readlink(path);
  } catch {
    return null;
  }
  return problem(
    'dangling-link',
    name,
    `${name} is a link to ${target}, which is not there: a download was interrupted or its cache was cleaned. Download the model again (hf download).`,
  );
}

function refuseKind(name: string, stat: Stat): CheckpointProblem | null {
  if (!isRegularFile(stat)) {
    return problem('not-a-regular-file', name, `${name} is not a regular file, so it holds no weights.`);
  }
  if (stat.sizeBytes > 0) return null;
  return problem(
    'empty-file',
    name,
    `${name} is empty: a download or copy was probably interrupted. Download it again.`,
  );
}

function readHead(fd: number): Buffer {
  const head = Buffer.alloc(headBytes);
  return head.subarray(0, native.preadSync(fd, head, 0));
}

/** The first line of what Git LFS leaves in a work tree in place of the content. */
const lfsMark = 'version https://git-lfs';

export function isLfsPointer(head: Buffer): boolean {
  return head.subarray(0, lfsMark.length).toString('latin1') === lfsMark;
}

export function lfsProblem(name: string, head: Buffer): CheckpointProblem {
  const sizeBytes = /^size (\d+)$/m.exec(head.toString('latin1'))?.[1];
  const stands = sizeBytes === undefined ? 'the real file' : `the real file of ${sizeBytes} bytes`;
  return problem(
    'lfs-pointer',
    name,
    `${name} is a Git LFS pointer and not the weights: the repository was cloned without ${stands}. Run \`git lfs pull\` in its folder, or download the model with \`hf download\`.`,
  );
}

function recognise(name: string, head: Buffer): CheckpointProblem | null {
  if (isLfsPointer(head)) return lfsProblem(name, head);
  const text = head.toString('latin1');
  if (/^\s*<(!doctype|html|\?xml)/i.test(text)) {
    return problem(
      'not-safetensors',
      name,
      `${name} is a web page and not weights: the download saved a login or error page under this name. Download it again, with access to the model.`,
    );
  }
  const other = text.startsWith('PK\x03\x04')
    ? 'PyTorch archive'
    : text.startsWith('GGUF')
      ? 'GGUF file'
      : null;
  if (other === null) return null;
  return problem(
    'not-safetensors',
    name,
    `${name} is a ${other} under another name; only safetensors files are read. Convert it, or download the safetensors version.`,
  );
}

function headerProblem(name: string, head: Buffer, error: PayloadError): CheckpointProblem {
  if (head.length >= 8 && head.readBigUInt64LE() > BigInt(maxHeaderBytes)) {
    return problem(
      'header-too-large',
      name,
      `${name}: ${error.message}. If it is one, save the model again in several shards.`,
    );
  }
  return problem(
    'header-broken',
    name,
    `${name} is not a sound safetensors file: ${error.message}. Download it again; if it stays so, have it written again with the safetensors library.`,
  );
}
