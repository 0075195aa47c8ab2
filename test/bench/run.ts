/**
 * `npm run bench [name...]`: ratios against a named peer, measured in the same run, and figures of the
 * desk against the bounds that people notice. It
 * reports and never fails for a slow machine; `--keep` also adds the table to RESULTS.md.
 */
import { appendFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mountOf, readMounts } from '../../src/store/filesystem-type.ts';
import { build } from './build.ts';
import { cleanup } from './cleanup.ts';
import { catalog } from './catalog.ts';
import { eventLoop } from './event-loop.ts';
import { inventory } from './inventory.ts';
import { lookup } from './lookup.ts';
import { machine, type Figure, type Ratio, type Row } from './measure.ts';
import { scrolling } from './scrolling.ts';
import { start } from './start.ts';
import { removeStores } from './stores.ts';
import { verification } from './verification.ts';

const benches: Readonly<Record<string, (folder: string) => Promise<Row[]>>> = {
  verification,
  build,
  inventory,
  lookup,
  cleanup,
  catalog,
  start,
  scrolling,
  'event-loop': eventLoop,
};

const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = asked.filter((name) => !Object.hasOwn(benches, name));
if (unknown.length > 0) {
  console.error(`no bench is called ${unknown.join(', ')}: there are ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), 'weightroom-bench-'));
const measured: Row[] = [];
try {
  for (const name of asked.length > 0 ? asked : Object.keys(benches)) {
    console.error(`running ${name} ...`);
    measured.push(...((await benches[name]?.(folder)) ?? []));
  }
} finally {
  removeStores(folder);
  rmSync(folder, { recursive: true, force: true });
}

const filesystem = mountOf(tmpdir(), readMounts())?.type ?? 'unknown';
const heading = `${new Date().toISOString().slice(0, 10)}, ${machine()}, ${filesystem}`;
const isRatio = (row: Row): row is Ratio => 'theirsMs' in row;
const ratios = measured.filter(isRatio);
const figures = measured.filter((row): row is Figure => !isRatio(row));
const ratioRows = ratios.map(
  (row) =>
    `| ${row.name} | ${row.ratio.toFixed(2)} | ${row.meaning}, ${row.bound} | ${row.kept ? 'yes' : 'NO'} | ${row.oursMs.toFixed(1)} ms | ${row.theirsMs.toFixed(1)} ms | ${row.runs} |`,
);
const figureRows = figures.map(
  (row) =>
    `| ${row.name} | ${row.value.toFixed(1)} ${row.unit} | at most ${row.bound} ${row.unit} | ${row.kept ? 'yes' : 'NO'} | ${row.remark ?? ''} | ${row.runs} |`,
);
const table = [
  `## ${heading}`,
  '',
  ...section(ratioRows, [
    '| comparison | ratio | meaning | kept | ours (median) | theirs (median) | runs |',
    '| --- | ---: | --- | --- | ---: | ---: | ---: |',
  ]),
  ...section(figureRows, [
    '| figure | measured | bound | kept | beside it | runs |',
    '| --- | ---: | ---: | --- | --- | ---: |',
  ]),
].join('\n');
console.log(table);
if (process.argv.includes('--keep')) {
  const results = join(import.meta.dirname, 'RESULTS.md');
  if (!existsSync(results))
    appendFileSync(results, '# Measured ratios\n\nMade by `npm run bench -- --keep`.\n\n');
  appendFileSync(results, `${table}\n`);
}

function section(rows: readonly string[], head: readonly string[]): string[] {
  return rows.length === 0 ? [] : [...head, ...rows, ''];
}
