import { describe, expect, it } from 'vitest';

import { nearest, parseArguments, parseSeconds, type ArgumentSpec } from '../../../src/cli/arguments.ts';
import { commandTable } from '../../../src/cli/command-table.ts';
import { commandHelp, overview } from '../../../src/cli/help.ts';

const spec: ArgumentSpec = {
  positionals: [
    { name: 'root', required: true },
    { name: 'key', required: false, many: true },
  ],
  options: {
    full: { help: 'everything' },
    size: { value: 'SIZE', short: 's', help: 'how large' },
    mode: { value: 'MODE', choices: ['preferred', 'required'], help: 'how' },
  },
};

describe('what is understood', () => {
  it('options stand anywhere, with = or a blank, short or long', () => {
    const given = parseArguments(['--full', 'root', '-s', '4', '--mode=required', 'a', 'b', '-q'], spec);
    expect(given.positionals).toEqual(['root', 'a', 'b']);
    expect(given.text('size')).toBe('4');
    expect(given.text('mode')).toBe('required');
    expect(given.flag('full')).toBe(true);
    expect(given.flag('quiet')).toBe(true);
    expect(given.flag('json')).toBe(false);
  });

  it('what follows -- is no option', () => {
    expect(parseArguments(['--', '--full'], spec).positionals).toEqual(['--full']);
  });

  it('of a repeated option the last value counts', () => {
    expect(parseArguments(['r', '--size', '1', '--size', '2'], spec).text('size')).toBe('2');
  });

  it('help is given without the rest being right', () => {
    expect(parseArguments(['--help'], spec).flag('help')).toBe(true);
  });
});

describe('what is refused', () => {
  it.each([
    [['r', '--ful'], 'there is no option --ful; did you mean --full?'],
    [['r', '--qiuet'], 'there is no option --qiuet; did you mean --quiet?'],
    [['r', '-x'], 'there is no option -x.'],
    [['r', '--__proto__'], 'there is no option --__proto__.'],
    [['r', '--size'], '--size needs a value: --size SIZE.'],
    [['r', '--size', '--full'], '--size needs a value: --size SIZE.'],
    [['r', '--size='], '--size needs a value: --size SIZE.'],
    [['r', '--json=yes'], '--json takes no value.'],
    [['r', '--mode', 'maybe'], '--mode is preferred or required, not "maybe".'],
    [[], '<root> is missing.'],
    [[''], '<root> is empty.'],
  ])('%j', (words, message) => {
    expect(() => parseArguments(words, spec)).toThrow(message);
  });

  it('arguments beyond the last', () => {
    const one: ArgumentSpec = { positionals: [{ name: 'root', required: true }], options: {} };
    expect(() => parseArguments(['a', 'b'], one)).toThrow('"b" is one argument too many.');
  });

  it('what is no number of seconds', () => {
    expect(parseSeconds('2.5', '--timeout')).toBe(2.5);
    for (const text of ['-1', 'soon', '1e3', '', 'Infinity']) {
      expect(() => parseSeconds(text, '--timeout')).toThrow('--timeout is a number of seconds');
    }
  });
});

describe('suggestions', () => {
  const known = ['build', 'resolve', 'verify', 'domain create'];

  it.each([
    ['biuld', 'build'],
    ['verfy', 'verify'],
    ['reslove', 'resolve'],
    ['ver', 'verify'],
    ['domain creat', 'domain create'],
  ])('%s -> %s', (word, meant) => {
    expect(nearest(word, known)).toBe(meant);
  });

  it('nothing where nothing is close', () => {
    expect(nearest('paint', known)).toBeUndefined();
    expect(nearest('x', known)).toBeUndefined();
  });
});

describe('help', () => {
  it('lists every command and every exit code', () => {
    const text = overview();
    for (const { name } of commandTable) expect(text).toContain(name);
    for (const code of ['0 ', '1 ', '2 ', '3 ', '4 ', '130'])
      expect(text).toMatch(new RegExp(`^ +${code}`, 'm'));
  });

  it.each(commandTable.map((entry) => [entry.name, entry] as const))(
    '%s has an example of itself',
    async (name, entry) => {
      const text = commandHelp(entry, (await entry.load()).command);
      expect(text).toContain(`Usage: weightroom ${name}`);
      expect(text.slice(text.indexOf('Example:'))).toContain(`weightroom ${name}`);
      expect(text).toContain('--json');
      expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(200);
    },
  );
});
