/** Who the browser host speaks to, and what it does with everybody else. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import type { BrowserHost } from '../../../src/host/browser-host.ts';
import { DeskScene, signIn, type Desk } from './desk-scene.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Asking {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Unlike fetch, it lets a test say whatever host and path it likes. */
function ask(
  host: BrowserHost,
  { method = 'GET', path = '/', headers = {}, body }: Asking = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: host.port, method, path, headers, agent: false };
    const asked = httpRequest(options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

async function scene(): Promise<{ scene: DeskScene; desk: Desk; host: BrowserHost; own: string }> {
  const made = new DeskScene().pages();
  const desk = await made.desk();
  const host = await desk.host();
  return { scene: made, desk, host, own: `http://127.0.0.1:${host.port}` };
}

/** The status of an upgrade: 101 where a connection came about. */
function upgrade(host: BrowserHost, headers: Record<string, string>, path = '/rpc'): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${host.port}${path}`, { headers });
    onTestFinished(() => socket.terminate());
    socket.on('open', () => resolve(101));
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    socket.on('error', reject);
  });
}

/** The code with which an open connection ends. */
function closeCode(socket: WebSocket): Promise<number> {
  return new Promise((resolve) => socket.once('close', (code) => resolve(code)));
}

describe('the pages', () => {
  test('come with a strict policy and nothing that they could be used for elsewhere', async () => {
    const { host } = await scene();
    const { status, headers, body } = await ask(host);
    expect(status).toBe(200);
    expect(body).toContain('<title>desk</title>');
    const policy = headers['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("style-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-resource-policy': 'same-origin',
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
    });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    const script = await ask(host, { path: '/assets/main-abcd1234.js' });
    expect(script.headers['content-type']).toContain('text/javascript');
    expect(script.headers['cache-control']).toContain('immutable');
    expect(await ask(host, { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])('%s changes nothing', async (method) => {
    const { host } = await scene();
    expect((await ask(host, { method })).status).toBe(405);
  });

  test('only what was built can be asked for, however the path is written', async () => {
    const { scene: made, host } = await scene();
    writeFileSync(made.path('secret.html'), 'secret');
    const climbs = ['..', '%2e%2e', '..%2f', '%2e%2e%2f', '..\\', '..%5c', '%252e%252e', '.%00.', '..;'];
    const paths = [
      ...climbs.flatMap((up) => [`/${up}/secret.html`, `/assets/${up}/${up}/secret.html`]),
      '//etc/passwd',
      `/${made.path('secret.html')}`,
      '/secret.html',
      '/assets',
      '/assets/',
      '/assets/main-abcd1234.js.map',
      '/index.html%00.png',
      '/__proto__',
      '/constructor',
    ];
    for (const path of paths) {
      const answer = await ask(host, { path });
      expect({ path, status: answer.status }).toEqual({ path, status: 404 });
      expect(answer.body).not.toContain('secret');
    }
  });

  test('where they are not built, that is said with what to do', async () => {
    const desk = await new DeskScene().desk();
    const answer = await ask(await desk.host());
    expect(answer.status).toBe(503);
    expect(answer.body).toContain('npm run build:renderer');
  });
});

describe('a session', () => {
  test('takes the token, and gives a cookie that no script and no other site has', async () => {
    const { host, own } = await scene();
    const body = JSON.stringify({ token: host.session.token });
    const answer = await ask(host, { method: 'POST', path: '/session', headers: { origin: own }, body });
    expect(answer.status).toBe(204);
    const [cookie = ''] = answer.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^weightroom_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(cookie).not.toContain(host.session.token);
    const [pair = ''] = cookie.split(';');
    expect((await ask(host, { path: '/session', headers: { cookie: pair } })).status).toBe(204);
    expect((await ask(host, { path: '/session', headers: { cookie: `${pair}x` } })).status).toBe(401);
    expect((await ask(host, { path: '/session' })).status).toBe(401);
  });

  test.each([
    ['no body', ''],
    ['no token', '{}'],
    ['a wrong token', JSON.stringify({ token: 'x'.repeat(43) })],
    ['a token of another kind', JSON.stringify({ token: ['x'] })],
    ['nothing', 'null'],
    ['no JSON', 'token'],
  ])('is not had for %s', async (_what, body) => {
    const { host, own } = await scene();
    const answer = await ask(host, { method: 'POST', path: '/session', headers: { origin: own }, body });
    expect(answer.status).toBe(401);
    expect(answer.headers['set-cookie']).toBeUndefined();
  });

  test('is not had by a body that does not end', async () => {
    const { host } = await scene();
    const body = 'x'.repeat(1024 ** 2);
    const status = await ask(host, { method: 'POST', path: '/session', body }).then(
      (answer) => answer.status,
      () => 413,
    );
    expect(status).toBe(413);
  });

  test('of another host is worth nothing', async () => {
    const { host } = await scene();
    const other = await scene();
    const cookie = (await signIn(other.host)).replace(String(other.host.port), String(host.port));
    expect((await ask(host, { path: '/session', headers: { cookie } })).status).toBe(401);
  });
});

describe('a request', () => {
  test.each([
    'evil.example',
    'evil.example:80',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    'localhost.',
    '0.0.0.0',
  ])('for the host %j is refused: a name that was pointed here is not this machine', async (name) => {
    const { host } = await scene();
    for (const path of ['/', '/session', '/assets/main-abcd1234.js']) {
      expect((await ask(host, { path, headers: { host: name } })).status).toBe(403);
    }
    const headers = { host: name, origin: `http://${name}`, cookie: await signIn(host) };
    expect(await upgrade(host, headers)).toBe(403);
  });

  test.each(['127.0.0.1', 'localhost', '[::1]'])(
    'for %s is answered, also through a tunnel',
    async (name) => {
      const { host } = await scene();
      const cookie = await signIn(host);
      for (const own of [`${name}:${host.port}`, `${name}:9000`]) {
        const headers = { host: own, origin: `http://${own}`, cookie };
        expect((await ask(host, { headers })).status).toBe(200);
        expect(await upgrade(host, headers)).toBe(101);
      }
    },
  );

  test.each([
    'http://evil.example',
    'null',
    'http://localhost:1',
    'https://127.0.0.1',
    'file://',
    'http://127.0.0.1',
  ])('from the origin %j is refused, with the right token and cookie too', async (origin) => {
    const { host } = await scene();
    const cookie = await signIn(host);
    const body = JSON.stringify({ token: host.session.token });
    const session = await ask(host, { method: 'POST', path: '/session', headers: { origin }, body });
    expect(session.status).toBe(403);
    expect(session.headers['set-cookie']).toBeUndefined();
    expect((await ask(host, { headers: { origin, cookie } })).status).toBe(403);
    expect(await upgrade(host, { origin, cookie })).toBe(403);
  });

  test('that another site makes without naming its origin is refused, but for following a link', async () => {
    const { host } = await scene();
    for (const site of ['cross-site', 'same-site']) {
      const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': 'no-cors' };
      expect((await ask(host, { path: '/assets/main-abcd1234.js', headers })).status).toBe(403);
      const link = { 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate' };
      expect((await ask(host, { headers: link })).status).toBe(200);
      expect((await ask(host, { method: 'POST', path: '/session', headers: link })).status).toBe(403);
    }
  });
});

describe('a connection', () => {
  test('needs the cookie, an origin and the right path', async () => {
    const { host, own } = await scene();
    const cookie = await signIn(host);
    expect(await upgrade(host, { origin: own })).toBe(401);
    expect(await upgrade(host, { origin: own, cookie: `${cookie}x` })).toBe(401);
    expect(await upgrade(host, { origin: own, cookie: `weightroom_${host.port}=` })).toBe(401);
    expect(await upgrade(host, { cookie })).toBe(403);
    expect(await upgrade(host, { origin: own, cookie }, '/other')).toBe(404);
    expect(await upgrade(host, { origin: own, cookie })).toBe(101);
  });

  test.each([
    ['no JSON', 'hello', 1008],
    ['a value that is no message', '[]', 1008],
    ['null', 'null', 1008],
    ['a message without a payload', '{"i":"1"}', 1008],
    ['a message with a strange type', '{"i":"1","t":9,"p":{"u":"/app/status"}}', 1008],
    ['an address that is none', '{"i":"1","p":{"u":"http://evil.example/app/status"}}', 1008],
    ['a climb', '{"i":"1","p":{"u":"/../app/status"}}', 1008],
    ['another method', '{"i":"1","p":{"u":"/app/status","m":"GET"}}', 1008],
    ['binary', Buffer.from('{"i":"1"}'), 1003],
    ['a message of more than 1 MiB', `"${'x'.repeat(1024 ** 2)}"`, 1009],
  ])('ends with %s, and the next one is served', async (_what, message, code) => {
    const { desk } = await scene();
    const { socket } = await desk.socket();
    const closed = closeCode(socket);
    socket.send(message);
    expect(await closed).toBe(code);
    const { client } = await desk.socket();
    expect(await client.settings.get()).toMatchObject({ theme: 'system' });
  });

  test.each([
    ['a procedure that there is not', '/app/nothing', {}],
    ['a name that every object has', '/constructor', {}],
    ['a path into a prototype', '/app/__proto__', {}],
  ])('answers %s with an error and goes on', async (_what, url, body) => {
    const { desk } = await scene();
    const { client, socket } = await desk.socket();
    if (/_/.test(url)) {
      // A path like that is no message at all.
      const closed = closeCode(socket);
      socket.send(JSON.stringify({ i: 'x1', p: { u: url, b: body } }));
      expect(await closed).toBe(1008);
      return;
    }
    const answered = new Promise<string>((resolve) => {
      socket.on('message', (data: Buffer) => {
        if (data.toString().includes('"x1"')) resolve(data.toString());
      });
    });
    socket.send(JSON.stringify({ i: 'x1', p: { u: url, b: body } }));
    expect(JSON.parse(await answered)).toMatchObject({ i: 'x1', p: { s: 404 } });
    expect(await client.settings.get()).toMatchObject({ theme: 'system' });
  });

  test('an input that pollutes prototypes is refused as an input', async () => {
    const { desk } = await scene();
    const { client, socket } = await desk.socket();
    const answered = new Promise<string>((resolve) => {
      socket.on('message', (data: Buffer) => {
        if (data.toString().includes('"x1"')) resolve(data.toString());
      });
    });
    socket.send(
      '{"i":"x1","p":{"u":"/settings/update","b":{"json":{"theme":"dark","__proto__":{"polluted":1}}}}}',
    );
    await answered;
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(await client.settings.get()).toBeDefined();
  });

  test('with too many streams ends; its streams end with it', async () => {
    const { desk } = await scene();
    const { client, socket } = await desk.socket();
    const closed = closeCode(socket);
    const streams = Array.from({ length: 140 }, () => client.app.events());
    await Promise.allSettled(streams);
    expect(await closed).toBe(1008);
    expect(desk.workstation.activity.added.listeners).toBe(0);
  });
});

describe('a flood', () => {
  test('of 10 000 requests is answered, and so is the next one', async () => {
    const { host } = await scene();
    let left = 10_000;
    let answered = 0;
    const asker = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const { status } = await fetch(`http://127.0.0.1:${host.port}/${left % 2 === 0 ? '' : 'none'}`);
        if (status === 200 || status === 404) answered += 1;
      }
    };
    await Promise.all(Array.from({ length: 50 }, asker));
    expect(answered).toBe(10_000);
    expect((await ask(host)).status).toBe(200);
  });

  test('of 10 000 calls at once over one connection is answered, call by call', async () => {
    const { desk } = await scene();
    const { client } = await desk.socket();
    const calls = Array.from({ length: 10_000 }, () => client.settings.get());
    const other = await desk.socket();
    expect(await other.client.settings.get()).toMatchObject({ theme: 'system' });
    expect(new Set((await Promise.all(calls)).map(({ theme }) => theme))).toEqual(new Set(['system']));
  });

  test('of bytes that are no HTTP ends with the connection', async () => {
    const { host } = await scene();
    const socket = connect(host.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const ended = new Promise((resolve) => socket.on('close', resolve));
    socket.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${'x'.repeat(1024 ** 2)}`);
    await ended;
    expect((await ask(host)).status).toBe(200);
  });
});

test('nobody but this machine can reach it', async () => {
  const { host } = await scene();
  const others = Object.values(networkInterfaces())
    .flat()
    .filter((address) => address !== undefined && !address.internal && address.family === 'IPv4');
  for (const other of others) {
    const reached = await new Promise<boolean>((resolve) => {
      const socket = connect(host.port, other?.address ?? '');
      socket.on('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    expect(reached).toBe(false);
  }
});
