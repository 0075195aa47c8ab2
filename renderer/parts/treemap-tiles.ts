/** The treemap of one store as what is drawn: a frame with a heading per model and layout, a tile per artifact. */
import type { DomainSummary } from '../../src/contract/domain-schemas.ts';
import { countOf } from '../words/bytes.ts';
import { lastPart } from '../words/names.ts';
import { shadeOfTile, type Shade } from '../words/states.ts';
import { squarify, type Box } from './treemap-layout.ts';

export interface Frame extends Box {
  readonly id: string;
  /** Short, for the heading. */
  readonly words: string;
  readonly title: string;
  readonly bytes: number;
  readonly level: 'model' | 'layout';
}

export interface Tile extends Box {
  readonly id: string;
  /** Null: many artifacts that are too small to be drawn one by one. */
  readonly key: string | null;
  readonly words: string;
  readonly title: string;
  readonly shade: Shade;
  readonly bytes: number;
}

export interface Picture {
  readonly frames: readonly Frame[];
  readonly tiles: readonly Tile[];
}

const headingHeight = { model: 20, layout: 17 } as const;
const leastForHeading = { model: { width: 60, height: 44 }, layout: { width: 60, height: 40 } } as const;
const gap = { model: 3, layout: 2 } as const;

export function pictureOf(models: DomainSummary['models'], width: number, height: number): Picture {
  const frames: Frame[] = [];
  const tiles: Tile[] = [];
  const shownModels = models.filter(({ bytes }) => bytes > 0);
  const modelBoxes = squarify(
    shownModels.map(({ bytes }) => bytes),
    { x: 0, y: 0, width, height },
  );
  shownModels.forEach((model, m) => {
    const name = model.model ?? 'Unknown model';
    const modelId = `model ${m}`;
    const inner = framed(
      frames,
      modelBoxes[m] as Box,
      { id: modelId, words: lastPart(name), title: name, bytes: model.bytes },
      'model',
    );
    const layouts = model.layouts.filter(({ bytes }) => bytes > 0);
    const layoutBoxes = squarify(
      layouts.map(({ bytes }) => bytes),
      inner,
    );
    layouts.forEach((layout, l) => {
      const words = layout.layout ?? 'unknown layout';
      const id = `${modelId} layout ${l}`;
      const space = framed(
        frames,
        layoutBoxes[l] as Box,
        { id, words, title: `${name}, ${words}`, bytes: layout.bytes },
        'layout',
      );
      tiles.push(...tilesOf(layout, space, `${name}, ${words}`, id));
    });
  });
  return { frames, tiles };
}

type Layout = DomainSummary['models'][number]['layouts'][number];

function tilesOf(layout: Layout, space: Box, where: string, id: string): Tile[] {
  const { rest } = layout;
  const artifacts = layout.artifacts.filter(({ bytes }) => bytes > 0);
  const sizes = artifacts.map(({ bytes }) => bytes);
  const hasRest = rest.bytes > 0;
  // The sum of the small ones may be larger than each: it comes last all the same, and a little less square.
  const boxes = squarify(hasRest ? [...sizes, rest.bytes] : sizes, space);
  const tiles = artifacts.map((artifact, index): Tile => ({
    ...(boxes[index] as Box),
    id: artifact.id,
    key: artifact.key,
    words: artifact.label,
    title: `${where}: ${artifact.label}`,
    shade: shadeOfTile(artifact.state),
    bytes: artifact.bytes,
  }));
  if (!hasRest) return tiles;
  const words = countOf(rest.entries, 'more artifact');
  const last = boxes[artifacts.length] as Box;
  const title = `${where}: ${words}`;
  return [
    ...tiles,
    { ...last, id: `${id} rest`, key: null, words, title, shade: 'other', bytes: rest.bytes },
  ];
}

/** The frame itself, with a heading where there is room for one; gives the space inside. */
function framed(
  frames: Frame[],
  box: Box,
  what: Pick<Frame, 'id' | 'words' | 'title' | 'bytes'>,
  level: Frame['level'],
): Box {
  const least = leastForHeading[level];
  const edge = box.width > 12 && box.height > 12 ? gap[level] : 0;
  const inner = {
    x: box.x + edge / 2,
    y: box.y + edge / 2,
    width: Math.max(0, box.width - edge),
    height: Math.max(0, box.height - edge),
  };
  if (inner.width < least.width || inner.height < least.height) return inner;
  frames.push({ ...inner, ...what, level });
  const heading = headingHeight[level];
  return { ...inner, y: inner.y + heading, height: inner.height - heading };
}
