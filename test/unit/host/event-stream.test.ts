import { expect, test } from 'vitest';
import { EventStream } from '../../../src/host/event-stream.ts';

async function all<T>(stream: EventStream<T>): Promise<T[]> {
  const read: T[] = [];
  for await (const event of stream) read.push(event);
  return read;
}

test('gives what was pushed, in order, to whoever reads early or late', async () => {
  const stream = new EventStream<number>();
  stream.push(1);
  const reading = all(stream);
  stream.push(2);
  await Promise.resolve();
  stream.push(3);
  stream.end();
  stream.push(4);
  expect(await reading).toEqual([1, 2, 3]);
});

test('of a slot only the newest is kept, in its place', async () => {
  const stream = new EventStream<string>();
  stream.push('progress 1', 'progress');
  stream.push('warning');
  stream.push('progress 2', 'progress');
  stream.push('state', 'state');
  stream.discard('state');
  stream.end();
  expect(await all(stream)).toEqual(['progress 2', 'warning']);
});

test('what fails is thrown once, behind what was queued', async () => {
  const stream = new EventStream<number>();
  stream.push(1);
  stream.fail(new Error('broken'));
  expect(await stream.next()).toEqual({ done: false, value: 1 });
  await expect(stream.next()).rejects.toThrow('broken');
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

test.each(['return', 'signal', 'end', 'signal before the start'])('closes once by %s', async (how) => {
  const leaving = new AbortController();
  let closed = 0;
  if (how === 'signal before the start') leaving.abort();
  const stream = new EventStream<number>({ signal: leaving.signal, onClose: () => (closed += 1) }).start();
  const reading = stream.next();
  if (how === 'return') await stream.return();
  if (how === 'signal') leaving.abort();
  stream.end();
  await stream.return();
  leaving.abort();
  expect(await reading).toEqual({ done: true, value: undefined });
  expect(closed).toBe(1);
});

test('a reader that is hopelessly behind is cut off', async () => {
  let closed = 0;
  const stream = new EventStream<number>({ onClose: () => (closed += 1) });
  for (let index = 0; index < 20_000; index += 1) stream.push(index);
  expect(closed).toBe(1);
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});
