/**
 * Canonical JSON against what CPython prints. The expected texts are literals that
 * `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)` of
 * CPython 3.11 gave, floats from its repr().
 */
import { describe, expect, test } from 'vitest';
import {
  canonicalBytes,
  canonicalJson,
  compareCodePoints,
  equalAsPython,
  floatText,
  JsonError,
  JsonFloat,
  type JsonValue,
} from '../../../src/store/canonical-json.ts';
import { parseJson, parseJsonBytes } from '../../../src/store/json-parser.ts';
import { Random } from '../../fixtures/store-payloads.ts';

const again = (text: string): string => canonicalJson(parseJson(text));

const reprs = `
  0.0 -0.0 1.0 -1.0 0.1 0.5 0.3333333333333333 0.0001 9.999e-05 0.00012345 1e-05 1.5e-07
  1000000000000000.0 1e+16 9999999999999998.0 1e+17 1.2345678901234568e+17 1e+21 1e+22 1e+23 5e-324
  2.2250738585072014e-308 1.7976931348623157e+308 -1.5e+300 0.30000000000000004 2.5e-08 100.0
  123456.789 3.141592653589793 1e+100 1e-100 4503599627370496.0 9007199254740992.0 1.2
  -1.4068346860981615e-56 -2.455011474436044e-105 -5.633713677151082e-257 2.8318246411143582e-118
  -1.4242220062369932e-49 -1.5621071930862218e+250 6.77836975408565e-67 1.4027027648510312e-274
  -7.243200649327336e-48 2.605231413331859e-107 -4.1781435352335044e-55 9.373565081230726e+235
  -1.2496212563981215e+43 -3.980521760651926e-17 -9.197896519847233e-49 -1.5575366186905764e-256
  1.6533652321186767e-08 4.012967645002425e-14 9.773194550470342e-226 3.896684144872454e-35
  -9.006934048457986e-261 9.966368703895774e-34 -4.095333240071674e-114 -4.8439725497325706e+290
  -1.3679748592744969e-112 -2.70195531256475e+235 3.1855351098122444e-259 8.133613678924683e-221
  1.6193990623743967e+26 7.01868437380142e+125 -5.446365992759313e+258 1.7081594143120103e+158
  2.191570216505042e+74 8.204720018270818e+157 5.611841372554621e+292 1.2357327913645922e-110
  2.0577635960853545e+298 3.8528535541017516e-25 -2.314006992614736e+18 -3.051277993935559e+174
  7.396579386016337e-196 4.5119591309121927e-268 2.6248576251893722e-188 3.34901595463001e-57
  -1.8158183788258837e-68 1.3957949245864532e-83 2.343429262981108e+145 -15.973785523088669
  -6.384356696087883e+80 3.1997818676826155e-92 -2.06423220345957e+29 -1.0866861195887351e-271
  -5.51916663369579e-300 3.2949570583980563e+211 0.08824613907958759 -54685885139.41519
  73921537672695.83 2.554489187268194e-07 -40.82948861525048 -0.0007208267057263864
  -6.238475824268041e-05 -5.248424315559903e-07 8646.996627630282 0.9660473467224182
  4615.973758999971 -2.383068054913684e+18 6.306776702557415e-06 -0.002652794229358921
  685654638000466.0 -4.671911661810669e+18 -682838.2691816586 -36102576.74212083
  -1.7879184909516589e-06 -4.1491875360195384e+16 9209855787.379307 887378333601.5808
  -14385.000835345552 3644106.460044083 201901223544.92468 2.762718028801858e+18 -8995408680309.521
  7.868655357938399e-07 0.6977502152517479 -260.3669235133719
`
  .trim()
  .split(/\s+/);

test.each(reprs)('the float %s reads and writes as Python prints it', (text) => {
  expect(again(text)).toBe(text);
  expect(floatText(Number(text))).toBe(text);
});

test('other spellings of a float become the same text', () => {
  expect(again('[1E5, -1e5, 1e-400, 0.10, 1.0e0, 100000000000000000000.0, 0.00001, 12e-1]')).toBe(
    '[100000.0,-100000.0,0.0,0.1,1.0,1e+20,1e-05,1.2]',
  );
});

describe('numbers', () => {
  test.each([
    ['-0', '0'],
    ['-0.0', '-0.0'],
    ['1', '1'],
    ['1.0', '1.0'],
    ['9007199254740993', '9007199254740993'],
    ['-9007199254740993', '-9007199254740993'],
    ['12345678901234567890123456789', '12345678901234567890123456789'],
    ['9007199254740993.0', '9007199254740992.0'],
    ['1e22', '1e+22'],
    ['123456789012345', '123456789012345'],
    ['1234567890123456', '1234567890123456'],
  ])('%s is written as %s', (text, expected) => expect(again(text)).toBe(expected));

  test('an integer keeps all of 4300 digits and no more', () => {
    const longest = `1${'0'.repeat(4299)}`;
    expect(again(longest)).toBe(longest);
    expect(again(`-${longest}`)).toBe(`-${longest}`);
    expect(() => parseJson(`${longest}0`)).toThrow(JsonError);
    expect(() => canonicalJson(10n ** 4300n)).toThrow(JsonError);
  });

  test.each(['1e400', '-1e400', 'NaN', 'Infinity', '-Infinity', '[1e999]'])('%s is refused', (text) => {
    expect(() => again(text)).toThrow(JsonError);
  });

  test('values that JavaScript could not tell apart are refused and not guessed', () => {
    expect(() => canonicalJson(2 ** 53)).toThrow('safe integers');
    expect(canonicalJson(new JsonFloat(2 ** 53))).toBe('9007199254740992.0');
    expect(canonicalJson(2n ** 53n)).toBe('9007199254740992');
    for (const value of [NaN, Infinity]) expect(() => canonicalJson(value)).toThrow(JsonError);
    expect(canonicalJson(-0)).toBe('0');
  });
});

describe('text', () => {
  test.each([
    ['plain', '"plain"'],
    ['\u00e9', '"\\u00e9"'],
    ['\u007f', '"\\u007f"'],
    ['\u2028\u2029', '"\\u2028\\u2029"'],
    ['\u{1f600}', '"\\ud83d\\ude00"'],
    ['\ud800', '"\\ud800"'],
    ['a\udc00b', '"a\\udc00b"'],
    ['\b\t\n\f\r\0\x1f\x0b', '"\\b\\t\\n\\f\\r\\u0000\\u001f\\u000b"'],
    ['"\\/', '"\\"\\\\/"'],
    ['\uffff', '"\\uffff"'],
    ['', '""'],
  ])('%j is written as %s, and read back', (value, expected) => {
    expect(canonicalJson(value)).toBe(expected);
    expect(parseJson(expected)).toBe(value);
  });

  test('the bytes are ASCII', () => {
    expect([...canonicalBytes('é\u{1f600}')].every((byte) => byte < 0x80)).toBe(true);
  });
});

describe('objects', () => {
  test('keys sort by code point and not by UTF-16 unit', () => {
    const keys = ['\uffff', '\u{10000}', 'z', 'Z', '__metadata__', '', '\ue000', '\ud83d', '\ud83dz', 'é'];
    expect(canonicalJson(Object.fromEntries(keys.map((key) => [key, 1])))).toBe(
      '{"":1,"Z":1,"__metadata__":1,"z":1,"\\u00e9":1,"\\ud83d":1,"\\ud83dz":1,"\\ue000":1,"\\uffff":1,"\\ud800\\udc00":1}',
    );
  });

  test('the order agrees with a comparison of code points, on random strings', () => {
    const random = new Random(20260801);
    const units = [
      'a',
      'z',
      '\ud7ff',
      '\ud800',
      '\udbff',
      '\udc00',
      '\udfff',
      '\ue000',
      '\uffff',
      '\u{10000}',
    ];
    const byPoints = (a: string, b: string): number => {
      const [left, right] = [[...a], [...b]].map((list) => list.map((c) => c.codePointAt(0) as number));
      for (let index = 0; ; index += 1) {
        const [x, y] = [left?.[index], right?.[index]];
        if (x === undefined || y === undefined) return Number(x !== undefined) - Number(y !== undefined);
        if (x !== y) return x - y;
      }
    };
    const draw = (): string => Array.from({ length: random.below(5) }, () => random.of(units)).join('');
    for (let round = 0; round < 20_000; round += 1) {
      const [a, b] = [draw(), draw()];
      expect(Math.sign(compareCodePoints(a, b)), `${JSON.stringify(a)} ${JSON.stringify(b)}`).toBe(
        Math.sign(byPoints(a, b)),
      );
    }
  });

  test('of two equal keys the last one wins', () => {
    expect(again('{"a":1,"b":2,"a":3}')).toBe('{"a":3,"b":2}');
  });

  test('__proto__ and its like are keys as any other', () => {
    const text = '{"__proto__":{"a":1},"constructor":2,"hasOwnProperty":3,"toString":4}';
    expect(again(text)).toBe(text);
    expect(Object.getPrototypeOf(parseJson('{"__proto__":{"a":1}}'))).toBe(Object.prototype);
  });

  test('keys that look like numbers are sorted as text', () => {
    expect(again('{"10":1,"9":2,"-1":3,"1.0":4}')).toBe('{"-1":3,"1.0":4,"10":1,"9":2}');
  });
});

describe('the reader', () => {
  test.each([
    '',
    '[1,]',
    '{"a":1,}',
    '01',
    '+1',
    '.5',
    '1.',
    '1e',
    '1e+',
    '-',
    '--1',
    'tru',
    'nulll',
    '[1 2]',
    '{"a" 1}',
    '{a:1}',
    "{'a':1}",
    '[1]x',
    '"abc',
    '"\t"',
    '"\n"',
    '"\\x"',
    '"\\u00zz"',
    '"\\u12"',
    '\u00a01',
    '[\u20281]',
    '{"a":1',
    '[',
    '\ufeff1',
    '// 1',
  ])('refuses %j, as Python does', (text) => expect(() => parseJson(text)).toThrow(JsonError));

  test('takes blanks of the four kinds', () => {
    expect(again(' \t\r\n{ "a" : [ ] , "b":{ } }\n')).toBe('{"a":[],"b":{}}');
  });

  test.each([
    ['UTF-8', Buffer.from('{"é":"\u{1f600}"}')],
    ['UTF-8 with a mark', Buffer.from('\ufeff{"é":"\u{1f600}"}')],
    ['UTF-16 little-endian', Buffer.from('{"é":"\u{1f600}"}', 'utf16le')],
    ['UTF-16 big-endian', Buffer.from('{"é":"\u{1f600}"}', 'utf16le').swap16()],
    ['UTF-16 with a mark', Buffer.from('\ufeff{"é":"\u{1f600}"}', 'utf16le')],
    ['UTF-16 with a mark, big-endian', Buffer.from('\ufeff{"é":"\u{1f600}"}', 'utf16le').swap16()],
    ['UTF-32 little-endian', utf32('{"é":"\u{1f600}"}')],
    ['UTF-32 big-endian', utf32('{"é":"\u{1f600}"}').swap32()],
  ])('reads %s', (_, bytes) => {
    expect(canonicalJson(parseJsonBytes(bytes))).toBe('{"\\u00e9":"\\ud83d\\ude00"}');
  });

  test.each([
    ['a broken sequence', [0x22, 0xff, 0x22]],
    ['an overlong form', [0x22, 0xc0, 0x80, 0x22]],
    ['a cut sequence', [0x22, 0xe2, 0x82, 0x22]],
    ['an odd number of UTF-16 bytes', [0xff, 0xfe, 0x31]],
    ['a UTF-32 value past the last code point', [0xff, 0xfe, 0, 0, 0, 0, 0x11, 0]],
  ])('refuses bytes with %s', (_, bytes) => {
    expect(() => parseJsonBytes(Buffer.from(bytes))).toThrow(JsonError);
  });

  test('lets an encoded surrogate through, as Python does', () => {
    const bytes = Buffer.from([0x22, 0x61, 0xed, 0xa0, 0x80, 0xc3, 0xa9, 0x22]);
    expect(canonicalJson(parseJsonBytes(bytes))).toBe('"a\\ud800\\u00e9"');
  });

  test('refuses what is nested too deeply instead of running out of stack', () => {
    expect(() => parseJson('['.repeat(100_000))).toThrow('nested too deeply');
    expect(() => parseJson('{"a":'.repeat(100_000))).toThrow('nested too deeply');
    let deep: JsonValue = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(() => canonicalJson(deep)).toThrow('nested too deeply');
    const fine = `${'['.repeat(800)}${']'.repeat(800)}`;
    expect(again(fine)).toBe(fine);
  });

  test('names where it stopped', () => {
    expect(() => parseJson('[1, x]')).toThrow('at character 4');
  });
});

test.each([
  ['1', '1.0', true],
  ['1', 'true', true],
  ['0', 'false', true],
  ['0', 'null', false],
  ['1', '"1"', false],
  ['9007199254740993', '9007199254740993.0', false],
  ['[1,2]', '[1.0,2.0]', true],
  ['[1,2]', '[2,1]', false],
  ['{"a":1,"b":2}', '{"b":2.0,"a":true}', true],
  ['{"a":1}', '{"a":1,"b":null}', false],
  ['{"__proto__":1}', '{}', false],
  ['-0.0', '0', true],
])('Python says of %s == %s: %s', (a, b, expected) => {
  expect(equalAsPython(parseJson(a), parseJson(b))).toBe(expected);
  expect(equalAsPython(parseJson(b), parseJson(a))).toBe(expected);
});

function utf32(text: string): Buffer {
  const points = [...text].map((character) => character.codePointAt(0) as number);
  const bytes = Buffer.alloc(points.length * 4);
  points.forEach((point, index) => bytes.writeUInt32LE(point, index * 4));
  return bytes;
}
