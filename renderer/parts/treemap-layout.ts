/**
 * A squarified treemap (Bruls, Huizing, van Wijk 2000): rectangles whose areas are in proportion to the sizes
 * and which are as close to squares as a row at a time allows. Pure.
 */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** One box per size, in order. Sizes are positive and the largest comes first. */
export function squarify(sizes: readonly number[], within: Box): Box[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (total <= 0 || within.width <= 0 || within.height <= 0)
    return sizes.map(() => ({ ...within, width: 0 }));
  const scale = (within.width * within.height) / total;
  const areas = sizes.map((size) => size * scale);
  const boxes: Box[] = [];
  let space = within;
  let begin = 0;
  while (begin < areas.length) {
    const side = Math.min(space.width, space.height);
    let end = begin + 1;
    let sum = areas[begin] as number;
    let worst = worstRatio(areas, begin, end, sum, side);
    while (end < areas.length) {
      const nextSum = sum + (areas[end] as number);
      const next = worstRatio(areas, begin, end + 1, nextSum, side);
      if (next > worst) break;
      worst = next;
      sum = nextSum;
      end += 1;
    }
    space = placeRow(areas.slice(begin, end), sum, space, boxes);
    begin = end;
  }
  return boxes;
}

function worstRatio(areas: readonly number[], begin: number, end: number, sum: number, side: number): number {
  const thickness = sum / side;
  const [longest, shortest] = [areas[begin] as number, areas[end - 1] as number];
  return Math.max(longest / thickness ** 2, thickness ** 2 / shortest);
}

function placeRow(areas: readonly number[], sum: number, space: Box, boxes: Box[]): Box {
  const { x, y, width, height } = space;
  if (width >= height) {
    const thickness = Math.min(width, sum / height);
    let at = y;
    for (const area of areas) {
      boxes.push({ x, y: at, width: thickness, height: area / thickness });
      at += area / thickness;
    }
    return { x: x + thickness, y, width: width - thickness, height };
  }
  const thickness = Math.min(height, sum / width);
  let at = x;
  for (const area of areas) {
    boxes.push({ x: at, y, width: area / thickness, height: thickness });
    at += area / thickness;
  }
  return { x, y: y + thickness, width, height: height - thickness };
}
