import { describe, expect, it } from 'vitest';

import { failure } from '../../../src/contract/failure.ts';
import { JsonFloat } from '../../../src/store/canonical-json.ts';
import { encodeDocument } from '../../../src/cli/json-document.ts';
import { Output, type OutputMode } from '../../../src/cli/output.ts';
import { printable, printableLines } from '../../../src/cli/printable.ts';
import { ProgressDisplay, type ProgressStyle, type TextStream } from '../../../src/cli/progress-display.ts';
import { fields, table } from '../../../src/cli/table.ts';

describe('text from disk', () => {
  it.each([
    ['red \x1b[31m', 'red \\x1b[31m'],
    ['over\rwritten', 'over\\x0dwritten'],
    ['c1 \x9b31m', 'c1 \\x9b31m'],
    ['bell\x07 del\x7f nul\0', 'bell\\x07 del\\x7f nul\\x00'],
    ['flip \u202e\u2066', 'flip \\u202e\\u2066'],
    ['line\u2028break', 'line\\u2028break'],
    ['not utf-8 \udcff', 'not utf-8 \\udcff'],
    ['fine: é 漢 😀', 'fine: é 漢 😀'],
  ])('%j is shown as %j', (text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  it('keeps line breaks of our own text, and of no field', () => {
    expect(printableLines('a\nb\x1b')).toBe('a\nb\\x1b');
    expect(table([{ title: 'NAME' }, { title: 'B' }], [['a\nb', 'c']])).toBe('NAME    B\na\\x0ab  c');
    expect(
      fields([
        ['name', 'x\ny'],
        ['none', null],
      ]),
    ).toBe('name  x\\x0ay');
  });
});

describe('documents', () => {
  it('are one line, with integers exact and whole floats still floats', () => {
    const text = encodeDocument({
      big: 2n ** 64n,
      float: new JsonFloat(1),
      minus: new JsonFloat(-0),
      list: [1.5],
    });
    expect(text).toBe('{"big":18446744073709551616,"float":1.0,"minus":-0.0,"list":[1.5]}');
  });

  it('have nothing in them that a terminal acts on, and still parse to the same text', () => {
    const name = 'x\x1b\x9b\x7f\u202e\u2028é😀\udc80';
    const text = encodeDocument({ name });
    expect(printable(text)).toBe(text);
    expect((JSON.parse(text) as { name: string }).name).toBe(name);
  });
});

describe('the sink', () => {
  const result = { document: { a: 1 }, text: 'for people\x1b', bare: 'key', problems: ['p'] };
  const problem = failure('lookup', 'local_miss', 'nothing there', { retryable: true });

  it('serves people: text on stdout, notes and failures on stderr', () => {
    const { output, stdout, stderr } = sink({ json: false, quiet: false });
    output.result(result);
    output.note('note');
    output.failure(problem, 'show');
    expect(stdout.text).toBe('for people\\x1b\n');
    expect(stderr.text).toBe(
      'note\nweightroom show: nothing there\n  (local_miss in lookup; trying again can help)\n',
    );
  });

  it('serves programs: documents on stdout and nothing on stderr', () => {
    const { output, stdout, stderr } = sink({ json: true, quiet: false });
    output.note('note');
    output.result(result);
    output.failure(problem, 'show');
    const failureText = JSON.stringify({ failure: problem });
    expect(stdout.text).toBe(`{"a":1}\n${failureText}\n`);
    expect(stderr.text).toBe('');
  });

  it('is quiet: the bare answer, and what went wrong', () => {
    const { output, stdout, stderr } = sink({ json: false, quiet: true });
    output.result(result);
    output.note('note');
    expect(stdout.text).toBe('key\n');
    expect(stderr.text).toBe('p\n');
  });

  it('lists all problems of a checkpoint', () => {
    const { output, stderr } = sink({ json: false, quiet: false });
    const details = { problems: [{ message: 'first' }, { message: 'second\x1b' }] };
    output.failure(
      failure('canonical_loading', 'canonical_source_failed', 'first (and 1 more)', { details }),
      'build',
    );
    expect(stderr.text).toContain('  - first\n  - second\\x1b\n');
  });

  it('tells a bug with its stack on stderr, and as a failure to programs', () => {
    const { output, stdout, stderr } = sink({ json: true, quiet: false });
    output.bug(new TypeError('oops'), 'ls');
    expect(stderr.text).toContain('this is a bug in weightroom: oops');
    expect(stderr.text).toContain('output.test.ts');
    expect(JSON.parse(stdout.text)).toMatchObject({
      failure: { message: 'a bug in weightroom: oops', details: { bug: true } },
    });
  });
});

describe('progress', () => {
  const report = {
    phase: 'hashing 1 of 2',
    doneBytes: 2 ** 30,
    totalBytes: 2 ** 31,
    bytesPerSecond: 2 ** 29,
    secondsLeft: 2,
  };

  it('rewrites one line on a terminal, never longer than it, and takes it away', () => {
    const { display, stream, clock } = progress('terminal', 40);
    clock.ms = 100;
    display.show(report);
    display.show({ ...report, doneBytes: 2 ** 31 });
    display.clear();
    expect(stream.text).toBe('\r\x1b[2Khashing 1 of 2, 1.0 GiB of 2.0 GiB (50%\r\x1b[2K');
  });

  it('is documents for a program', () => {
    const { display, stream, clock } = progress('documents');
    clock.ms = 1000;
    display.show(report);
    expect(JSON.parse(stream.text)).toEqual({
      progress: {
        phase: 'hashing 1 of 2',
        done_bytes: 2 ** 30,
        total_bytes: 2 ** 31,
        bytes_per_second: 2 ** 29,
        seconds_left: 2,
      },
    });
  });

  it('in a log names what takes a while, and nothing of what is over in a moment', () => {
    const { display, stream, clock } = progress('log');
    clock.ms = 500;
    display.show({ ...report, phase: 'looking' });
    clock.ms = 1200;
    display.show(report);
    clock.ms = 5000;
    display.show(report);
    clock.ms = 11_500;
    display.show(report);
    display.clear();
    const line = 'hashing 1 of 2, 1.0 GiB of 2.0 GiB (50%), 0.5 GiB/s, 2.0 s left\n';
    expect(stream.text).toBe(line + line);
  });

  it('is silent where nothing is wanted', () => {
    const { display, stream } = progress('none');
    display.show(report);
    expect(stream.text).toBe('');
  });
});

interface Recorder extends TextStream {
  text: string;
}

function recorder(columns?: number): Recorder {
  return {
    text: '',
    ...(columns === undefined ? {} : { columns, isTTY: true }),
    write(text: string) {
      this.text += text;
    },
  };
}

function sink(mode: OutputMode): { output: Output; stdout: Recorder; stderr: Recorder } {
  const stdout = recorder();
  const stderr = recorder();
  return { output: new Output(mode, stdout, stderr), stdout, stderr };
}

function progress(
  style: ProgressStyle,
  columns?: number,
): { display: ProgressDisplay; stream: Recorder; clock: { ms: number } } {
  const stream = recorder(columns);
  const clock = { ms: 0 };
  return { display: new ProgressDisplay(stream, style, () => clock.ms), stream, clock };
}
