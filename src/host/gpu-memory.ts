/**
 * What is known of GPUs from the last time they were asked, per driver library: so that one which is disabled can be
 * named without a single call into the driver, and a platform's refusal need not be found out twice. A cache below
 * the XDG state directory: deleting it costs one probe.
 */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { guarded, replaceFile } from './durable-file.ts';

const remembered = z.object({
  index: z.int().nonnegative(),
  uuid: z.string(),
  name: z.string(),
  pciAddress: z.string(),
  totalBytes: z.number(),
  readOnlyRegister: z.boolean(),
});
export type RememberedGpu = z.infer<typeof remembered>;

const perLibrary = z.object({
  simulated: z.boolean(),
  driverVersion: z.number(),
  driver: z.string().nullable(),
  gpus: z.array(remembered),
  /** GPU and driver version for which the platform refused registration. */
  forbidden: z.array(z.object({ uuid: z.string(), driverVersion: z.number() })),
});
export type LibraryMemory = z.infer<typeof perLibrary>;

const memory = z.record(z.string(), perLibrary);
/** The key of the system's own driver. */
const systemLibrary = 'system';

export class GpuMemory {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  async of(library: string | null): Promise<LibraryMemory | null> {
    return (await this.#read())[library ?? systemLibrary] ?? null;
  }

  async keep(library: string | null, found: Omit<LibraryMemory, 'forbidden'>): Promise<void> {
    await this.#change(library, (before) => ({ ...found, forbidden: before?.forbidden ?? [] }));
  }

  async forbid(library: string | null, uuid: string): Promise<void> {
    await this.#change(library, (before) => {
      if (before === null) return null;
      const { driverVersion } = before;
      const others = before.forbidden.filter((entry) => entry.uuid !== uuid);
      return { ...before, forbidden: [...others, { uuid, driverVersion }] };
    });
  }

  async #change(
    library: string | null,
    change: (before: LibraryMemory | null) => LibraryMemory | null,
  ): Promise<void> {
    await guarded(this.#path, async () => {
      const all = await this.#read();
      const key = library ?? systemLibrary;
      const after = change(all[key] ?? null);
      if (after !== null) await replaceFile(this.#path, `${JSON.stringify({ ...all, [key]: after })}\n`);
    });
  }

  async #read(): Promise<z.infer<typeof memory>> {
    try {
      const parsed = memory.safeParse(JSON.parse(await readFile(this.#path, 'utf8')));
      return parsed.success ? parsed.data : {};
    } catch {
      return {};
    }
  }
}
