/** `weightroom show`: one artifact, whatever state it is in, and what is known about its key. */
import { FailureError } from '../../contract/failure.ts';
import { identityFields } from '../../host/identity-fields.ts';
import { nearestArtifacts, type NearArtifact } from '../../host/nearest.ts';
import { storedManifest, type StoredManifest } from '../../store/stored-identity.ts';
import { missingArtifact, storeOutcome } from '../../host/stores.ts';
import { canonicalJson } from '../../store/canonical-json.ts';
import type { Domain } from '../../store/domain.ts';
import type { ArtifactIdentity } from '../../store/identity.ts';
import { inventory, type InventoryEntry } from '../../store/inventory.ts';
import { inspectKey, type LookupResult } from '../../store/lookup.ts';
import type { Manifest, TensorEntry } from '../../store/manifest.ts';
import type { Command, Invocation } from '../command.ts';
import { count, levelWords } from '../documents.ts';
import { formatMoment, isoMoment } from '../durations.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import type { JsonDocument } from '../json-document.ts';
import { nearDocument, nearText } from '../near-artifacts.ts';
import { formatSize } from '../sizes.ts';
import { keyArgument, meantKey, openedStore, rootArgument, valueOf } from '../store-arguments.ts';
import { fields, table } from '../table.ts';

export const command: Command = {
  positionals: [rootArgument, keyArgument],
  options: { tensors: { help: 'list every tensor' } },
  details: `The artifact is checked at the metadata level on the way. For a key that is only in quarantine, the nearest
artifacts are shown with the fields of their identities that differ.`,
  example: 'weightroom show /var/lib/weights 3f9a1c --tensors',
  run,
};

/** Everything that the store has under one key. */
interface Subject {
  readonly key: string;
  readonly entries: readonly InventoryEntry[];
  readonly stored: StoredManifest;
  readonly check: LookupResult;
  /** Null where the artifact is there. */
  readonly near: readonly NearArtifact[] | null;
}

async function run({ arguments: given, output }: Invocation): Promise<ExitCode> {
  const domain = await openedStore(given.positional(0));
  const { key, present } = await meantKey(domain, given.positional(1));
  if (!present) throw new FailureError(missingArtifact(key, nowhere(domain, key)));
  const subject = valueOf(await storeOutcome('the artifact cannot be read', () => examine(domain, key)));
  const missing = subject.check.status === 'miss';
  const failure = missing ? missingArtifact(key, `there is no published artifact ${key}`) : null;
  output.result({
    document: { ...documentOf(subject, given.flag('tensors')), failure },
    text: textOf(subject, given.flag('tensors')),
    bare: key,
  });
  return missing ? exitCodes.failed : exitCodes.done;
}

function nowhere(domain: Domain, key: string): string {
  return `${domain.root} has nothing under the key ${key}. If you have the identity, \`weightroom resolve\` shows which artifacts come closest to it and what differs; \`weightroom ls\` lists what is there.`;
}

async function examine(domain: Domain, key: string): Promise<Subject> {
  const entries = (await inventory(domain)).entries.filter((entry) => entry.key === key);
  const check = await inspectKey(domain, key);
  if (check.status === 'hit') check.lease.close();
  const stored = await manifestOf(domain, key, entries, check);
  const compared = check.status === 'miss' ? stored.identity : null;
  return {
    key,
    entries,
    stored,
    check,
    near: compared === null ? null : await othersNear(domain, compared),
  };
}

/** Of what is published, else of what is in quarantine. */
async function manifestOf(
  domain: Domain,
  key: string,
  entries: readonly InventoryEntry[],
  check: LookupResult,
): Promise<StoredManifest> {
  if (check.status !== 'miss') return await storedManifest(domain, 'artifacts', key);
  const quarantined = entries.find(({ state }) => state === 'quarantined');
  if (quarantined === undefined) return { identity: null, manifest: null, problem: null };
  return await storedManifest(domain, 'quarantine', quarantined.name);
}

/** Its own quarantined entries are shown anyway. */
async function othersNear(domain: Domain, identity: ArtifactIdentity): Promise<NearArtifact[]> {
  const near = await nearestArtifacts(domain, identity);
  return near.filter(({ key }) => key !== identity.key);
}

function documentOf({ key, entries, stored, check, near }: Subject, allTensors: boolean): JsonDocument {
  const { manifest } = stored;
  return {
    key,
    check: {
      level: 'manifest_and_metadata',
      status: check.status === 'hit' ? 'valid' : check.status,
      failure: 'failure' in check ? check.failure : null,
    },
    states: entries.map((entry) => ({
      state: entry.state,
      name: entry.name,
      bytes: entry.bytes,
      reason: entry.reason,
      invalidated: entry.invalidated,
      modified: isoMoment(entry.modifiedNs),
    })),
    identity: stored.identity?.document ?? null,
    problem: stored.problem,
    artifact_content_sha256: manifest?.contentSha256 ?? null,
    files: manifest?.files ?? null,
    tensor_count: manifest?.tensors.length ?? null,
    tensor_bytes: manifest === null ? null : tensorBytes(manifest),
    ...(allTensors ? { tensors: manifest?.tensors ?? null } : {}),
    ...(near === null ? {} : { nearest: nearDocument(near) }),
  };
}

function tensorBytes({ tensors }: Manifest): number {
  return tensors.reduce((total, { nbytes }) => total + nbytes, 0);
}

function textOf(subject: Subject, allTensors: boolean): string {
  const { key, entries, stored, near } = subject;
  return [
    fields([['key', key], ...entries.map(stateLine), ['checked', checkWords(subject)]]),
    ...(stored.problem === null ? [] : [`problem: ${stored.problem}`]),
    ...(stored.identity === null ? [] : ['', 'Identity', identityText(stored.identity)]),
    ...(stored.manifest === null ? [] : ['', ...contentText(stored.manifest, allTensors)]),
    ...(near === null ? [] : ['', nearText(near)]),
  ].join('\n');
}

function stateLine({
  state,
  reason,
  bytes,
  modifiedNs,
  name,
  invalidated,
}: InventoryEntry): readonly [string, string] {
  const words = [
    ...(reason === null ? [] : [reason]),
    ...(invalidated ? ['marked invalid'] : []),
    formatSize(bytes),
    formatMoment(modifiedNs),
    ...(state === 'quarantined' || state === 'temporary' ? [name.slice(65)] : []),
  ];
  return [state, words.join(', ')];
}

function checkWords({ check }: Subject): string {
  if (check.status === 'miss') return 'not published, so there is nothing to serve';
  const verdict = check.status === 'hit' ? 'passes' : `${check.status}: ${check.failure.message}`;
  return `${verdict} (just now; ${levelWords.manifest_and_metadata})`;
}

function identityText(identity: ArtifactIdentity): string {
  const lines = [...identityFields(identity.document)].flatMap(([path, value]) => {
    const text = typeof value === 'string' ? value : canonicalJson(value);
    return text === '{}' ? [] : [[path, text] as const];
  });
  return fields(lines, '  ');
}

const shownTensors = 10;

function contentText(manifest: Manifest, allTensors: boolean): string[] {
  const { files, tensors } = manifest;
  const shown = allTensors ? tensors : tensors.slice(0, shownTensors);
  const hidden = tensors.length - shown.length;
  return [
    `Files (${files.length})`,
    table(
      [{ title: 'NAME' }, { title: 'SIZE', align: 'right' }, { title: 'SHA-256' }],
      files.map(({ file_name: name, size, sha256 }) => [name, formatSize(size), sha256]),
    ),
    '',
    `Tensors (${count(tensors.length, 'tensor')}, ${formatSize(tensorBytes(manifest))})`,
    table(
      [{ title: 'NAME' }, { title: 'DTYPE' }, { title: 'SHAPE' }, { title: 'BYTES', align: 'right' }],
      shown.map(tensorRow),
    ),
    ...(hidden > 0 ? [`and ${hidden} more: --tensors lists them all`] : []),
  ];
}

function tensorRow({ name, dtype, shape, nbytes }: TensorEntry): string[] {
  return [name, dtype.replace(/^torch\./, ''), `[${shape.join(', ')}]`, String(nbytes)];
}
