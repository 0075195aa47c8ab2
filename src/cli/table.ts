/** Columns of text for people. Cells are escaped here, so that a name from disk can't break the layout. */
import { printable } from './printable.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/** Lines without trailing blanks; the titles come first. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const cells = [columns.map((column) => column.title), ...rows.map((row) => row.map(printable))];
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => widthOf(row[index] ?? ''))));
  return cells.map((row) => layOut(row, columns, widths)).join('\n');
}

/** `name  value` lines, values aligned; entries whose value is null are left out. */
export function fields(
  entries: readonly (readonly [name: string, value: string | null])[],
  indent = '',
): string {
  const shown = entries.filter((entry): entry is readonly [string, string] => entry[1] !== null);
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown
    .map(([name, value]) => `${indent}${name.padEnd(width)}  ${printable(value)}`.trimEnd())
    .join('\n');
}

function layOut(row: readonly string[], columns: readonly Column[], widths: readonly number[]): string {
  const padded = columns.map((column, index) => {
    const cell = row[index] ?? '';
    const blanks = ' '.repeat((widths[index] as number) - widthOf(cell));
    return column.align === 'right' ? blanks + cell : cell + blanks;
  });
  return padded.join('  ').trimEnd();
}

/** In code points: close enough to columns for the names that models have. */
function widthOf(text: string): number {
  return [...text].length;
}
