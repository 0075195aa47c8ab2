/** A Python process of the published package that takes leases and reads through its mappings while it holds them. */
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { OutsideReader } from '../fixtures/cleanup-interleavings.ts';
import { bodyOf, identityOf, type Content, type Scenario } from '../fixtures/store.ts';
import type { PythonSide } from './python-side.ts';

export class PythonReader implements OutsideReader {
  readonly #python: PythonSide;
  #root = '';
  #store = '';

  constructor(python: PythonSide) {
    this.#python = python;
  }

  async read(
    { root }: Scenario,
    label: string,
    content: Content,
    whileHeld: () => Promise<void>,
  ): Promise<boolean> {
    if (this.#root !== root) {
      this.#store = (await this.#python.open({ root })).store;
      this.#root = root;
    }
    const found = await this.#python.lookup(this.#store, identityOf(label).canonical, {
      keepLease: true,
      timeoutSeconds: 1,
    });
    const { lease } = found;
    if (lease === null) return false;
    try {
      const expected = createHash('sha256').update(bodyOf(content)).digest('hex');
      await whileHeld();
      const { tensors } = await this.#python.readLease(lease);
      const body = tensors?.find(({ name }) => name === 'body');
      expect(body?.sha256, `what Python reads of ${label}`).toBe(expected);
    } finally {
      await this.#python.closeLease(lease);
    }
    return true;
  }
}
