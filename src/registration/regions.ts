/**
 * What a worker registers: the regions of a lease, as whole pages. A region's pages are aligned outwards, and
 * regions of one file that touch or overlap then are one; regions of different files never are. Regions are cut
 * into chunks, because one call for many GiB gives no sign of life and meets ceilings of the driver.
 * Source: registration specification, sections 1 and 3.
 */
import type { PayloadRegion } from '../store/lease.ts';

/** Of one call. Every range is whole pages, and no two overlap. */
export interface Chunk {
  readonly fileName: string;
  /** From 1; `regions` over all files of the artifact. */
  readonly region: number;
  readonly regions: number;
  /** From 1, within the region. */
  readonly chunk: number;
  readonly chunks: number;
  readonly offset: number;
  readonly bytes: number;
}

export interface RegistrationPlan {
  readonly regions: number;
  readonly chunks: readonly Chunk[];
  /** Page-aligned: what a budget is held against. */
  readonly bytes: number;
}

/** A driver that takes this in one call is known, one that takes 512 GiB is not. */
export const maxChunkBytes = 64 * 1024 ** 3;
export const defaultChunkBytes = 1024 ** 3;

/** `chunkBytes` is rounded down to whole pages, but is at least one. */
export function planRegistration(
  regions: readonly PayloadRegion[],
  chunkBytes: number,
  pageBytes: number,
): RegistrationPlan {
  const aligned = pageRegions(regions, pageBytes);
  const step = Math.max(1, Math.floor(Math.min(chunkBytes, maxChunkBytes) / pageBytes)) * pageBytes;
  const chunks = aligned.flatMap((region, index) => chunksOf(region, index + 1, aligned.length, step));
  return {
    regions: aligned.length,
    chunks,
    bytes: aligned.reduce((total, region) => total + region.length, 0),
  };
}

/** In the order in which the files come first; by offset within a file. */
export function pageRegions(regions: readonly PayloadRegion[], pageBytes: number): PayloadRegion[] {
  const byFile = new Map<string, { start: number; end: number }[]>();
  for (const { fileName, offset, length } of regions) {
    if (length === 0) continue;
    const start = Math.floor(offset / pageBytes) * pageBytes;
    const end = Math.ceil((offset + length) / pageBytes) * pageBytes;
    const spans = byFile.get(fileName);
    if (spans === undefined) byFile.set(fileName, [{ start, end }]);
    else spans.push({ start, end });
  }
  return [...byFile].flatMap(([fileName, spans]) =>
    merged(spans).map(({ start, end }) => ({ fileName, offset: start, length: end - start })),
  );
}

function merged(spans: { start: number; end: number }[]): { start: number; end: number }[] {
  const result: { start: number; end: number }[] = [];
  for (const span of spans.sort((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last !== undefined && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else result.push({ ...span });
  }
  return result;
}

function chunksOf(
  { fileName, offset, length }: PayloadRegion,
  region: number,
  regions: number,
  step: number,
): Chunk[] {
  const chunks = Math.ceil(length / step);
  return Array.from({ length: chunks }, (_, index) => ({
    fileName,
    region,
    regions,
    chunk: index + 1,
    chunks,
    offset: offset + index * step,
    bytes: Math.min(step, length - index * step),
  }));
}
