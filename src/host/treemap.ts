/** The bytes of a store as model > layout > artifact. Pure: rows in, groups out, the largest first. */
import type { DomainSummary } from '../contract/domain-schemas.ts';
import { classOf, type SnapshotRow } from './store-snapshot.ts';

type TreemapModel = DomainSummary['models'][number];
type TreemapLayout = TreemapModel['layouts'][number];
type TreemapArtifact = TreemapLayout['artifacts'][number];

/** More rectangles than this are smaller than a pixel; what is beyond is summed up per layout. */
export const mostArtifacts = 800;

export function treemapOf(rows: readonly SnapshotRow[], most = mostArtifacts): TreemapModel[] {
  const shown = rows.filter(({ state }) => state !== 'denied');
  const listed = new Set([...shown].sort(largestFirst).slice(0, most));
  const models = Map.groupBy(shown, ({ model }) => model);
  return [...models]
    .map(([model, members]): TreemapModel => {
      const layouts = [...Map.groupBy(members, layoutOf)].map(([layout, rowsOf]) =>
        layoutGroup(layout, rowsOf, listed),
      );
      return { model, ...sum(members), layouts: layouts.sort(largestFirst) };
    })
    .sort(largestFirst);
}

function layoutGroup(
  layout: string | null,
  rows: readonly SnapshotRow[],
  listed: ReadonlySet<SnapshotRow>,
): TreemapLayout {
  const artifacts = rows
    .filter((row) => listed.has(row))
    .sort(largestFirst)
    .map(artifactOf);
  return { layout, ...sum(rows), artifacts, rest: sum(rows.filter((row) => !listed.has(row))) };
}

function layoutOf({ layout, tensorParallelSize }: SnapshotRow): string | null {
  if (layout === null) return null;
  return tensorParallelSize === null ? layout : `${layout} TP${tensorParallelSize}`;
}

function artifactOf(row: SnapshotRow): TreemapArtifact {
  const { id, key, bytes, component, tensorParallelSize, tensorParallelRank } = row;
  const rank = tensorParallelSize === null || tensorParallelSize === 1 ? '' : ` rank ${tensorParallelRank}`;
  const state = classOf(row);
  return {
    id,
    key,
    label: component === null ? key.slice(0, 12) : `${component}${rank}`,
    state: state === 'denied' ? 'unserved' : state,
    bytes,
  };
}

function sum(rows: readonly SnapshotRow[]): { entries: number; bytes: number } {
  return { entries: rows.length, bytes: rows.reduce((total, { bytes }) => total + bytes, 0) };
}

function largestFirst(a: { readonly bytes: number }, b: { readonly bytes: number }): number {
  return b.bytes - a.bytes;
}
