/** The builds of the last while as lanes of a time chart. Pure. */
import type { BuildList } from '../../src/contract/build-schemas.ts';
import { durationWords } from '../words/durations.ts';
import { groupOf, groupWords, nameOfBuild, outcomeOf, phaseWords, type PhaseGroup } from '../words/phases.ts';
import type { DeskTone } from '../words/tones.ts';
import { lastPart } from '../words/names.ts';

export interface Block {
  readonly group: PhaseGroup | 'elsewhere';
  /** In shares of the whole axis. */
  readonly from: number;
  readonly length: number;
  readonly words: string;
}

export interface Lane {
  readonly id: string;
  readonly name: string;
  readonly store: string;
  readonly blocks: readonly Block[];
  readonly outcome: string;
  readonly tone: DeskTone;
  readonly inWords: string;
}

export interface Tick {
  readonly at: number;
  readonly atMs: number;
}

export interface Chart {
  readonly lanes: readonly Lane[];
  readonly ticks: readonly Tick[];
}

const lookBackMs = 30 * 60_000;
const mostLanes = 12;
const leastSpanMs = 10_000;
const tickSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
const mostTicks = 8;

export function chartOf({ builds, elsewhere }: BuildList, nowMs: number): Chart {
  const shown = builds
    .filter(({ endedAtMs }) => endedAtMs === null || endedAtMs > nowMs - lookBackMs)
    .slice(0, mostLanes);
  const starts = [
    ...shown.map(({ startedAtMs }) => startedAtMs),
    ...elsewhere.map((build) => build.seenSinceMs),
  ];
  if (starts.length === 0) return { lanes: [], ticks: [] };
  const isLive = elsewhere.length > 0 || shown.some(({ result }) => result === null);
  const ends = shown.map(({ endedAtMs }) => endedAtMs ?? nowMs);
  const beginMs = Math.min(...starts);
  const endMs = Math.max(beginMs + leastSpanMs, isLive ? nowMs : Math.max(...ends));
  const spanMs = endMs - beginMs;
  const share = (ms: number): number => Math.max(0, Math.min(1, (ms - beginMs) / spanMs));
  const block = (group: Block['group'], fromMs: number, toMs: number, words: string): Block => {
    const what = `${words}: ${durationWords(Math.max(0, toMs - fromMs))}`;
    return { group, from: share(fromMs), length: share(toMs) - share(fromMs), words: what };
  };
  const own = shown.map((build): Lane => {
    const blocks = build.phases.map(({ phase, startedAtMs }, index) => {
      const toMs = build.phases[index + 1]?.startedAtMs ?? build.endedAtMs ?? nowMs;
      return block(groupOf(phase), startedAtMs, toMs, phaseWords[phase]);
    });
    const { words, tone } = outcomeOf(build);
    const took = durationWords((build.endedAtMs ?? nowMs) - build.startedAtMs);
    return {
      id: build.id,
      name: nameOfBuild(build),
      store: lastPart(build.root),
      blocks,
      outcome: `${words}, ${took}`,
      tone,
      inWords: blocks.map(({ words: text }) => text).join('; '),
    };
  });
  const others = elsewhere.map((other): Lane => {
    const words = other.holdsAdmission ? 'builds, holds admission' : 'builds';
    const lane = block('elsewhere', other.seenSinceMs, nowMs, `seen in process ${other.pid}`);
    return {
      id: `${other.root} ${other.pid} ${other.key}`,
      name: `Process ${other.pid}`,
      store: lastPart(other.root),
      blocks: [lane],
      outcome: words,
      tone: 'quiet',
      inWords: `${lane.words}. ${other.command}`,
    };
  });
  return { lanes: [...others, ...own], ticks: ticksOf(beginMs, endMs) };
}

function ticksOf(beginMs: number, endMs: number): Tick[] {
  const spanMs = endMs - beginMs;
  const stepMs = (tickSteps.find((step) => spanMs / (step * 1000) <= mostTicks) ?? 86_400) * 1000;
  const ticks: Tick[] = [];
  for (let atMs = Math.ceil(beginMs / stepMs) * stepMs; atMs <= endMs; atMs += stepMs) {
    ticks.push({ at: (atMs - beginMs) / spanMs, atMs });
  }
  return ticks;
}

export const legend: readonly { readonly group: Block['group']; readonly words: string }[] = [
  { group: 'preparing', words: groupWords.preparing },
  { group: 'waiting', words: groupWords.waiting },
  { group: 'producing', words: groupWords.producing },
  { group: 'publishing', words: groupWords.publishing },
  { group: 'elsewhere', words: 'In another process' },
];
