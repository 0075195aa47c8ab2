/** What is written into the treemap: all of a label or, where that has no room, none of it. */

/** The first of the choices, from long to short, that has room in one line; nothing where none has. */
export function headingOf(choices: readonly string[], room: number, perLetter: number): string {
  const most = Math.floor((room - 10) / perLetter);
  return choices.find(({ length }) => length <= most) ?? '';
}

/** The words in one line or two, none of them cut. Lengths are pixels. */
export function linesOf(words: string, width: number, height: number): string[] {
  const most = Math.floor((width - labelEdge) / letterWidth);
  if (height < lineHeight + labelEdge) return [];
  if (words.length <= most) return [words];
  const space = words.indexOf(' ');
  if (space < 0 || height < 2 * lineHeight + labelEdge) return [];
  const lines = [words.slice(0, space), words.slice(space + 1)];
  return lines.every(({ length }) => length <= most) ? lines : [];
}

export const letterWidth = 6.6;
export const lineHeight = 15;
const labelEdge = 14;
