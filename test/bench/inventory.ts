/** Inventory of 10,000 artifacts against the Python package's inspect_domain on the same domain. */
import { join } from 'node:path';
import { inventory as takeInventory } from '../../src/store/inventory.ts';
import { ensurePython } from '../interop/environment.ts';
import { PythonSide } from '../interop/python-side.ts';
import { atMost, contest, timed, type Ratio } from './measure.ts';
import { multiply, newDomain, publish } from './stores.ts';

const runs = 5;
const artifacts = 10_000;

export async function inventory(folder: string): Promise<Ratio[]> {
  await ensurePython();
  const domain = await newDomain(join(folder, 'inventory'));
  multiply(
    domain,
    await publish(domain, { label: 'small', files: 1, tensorsPerFile: 4, bytesPerTensor: 1024 }),
    artifacts - 1,
  );
  const python = await PythonSide.start();
  try {
    const { store } = await python.open({ root: domain.root });
    const times = await contest({
      runs,
      ours: () =>
        timed(async () => {
          const { entries } = await takeInventory(domain);
          if (entries.length !== artifacts) throw new Error(`${entries.length} entries`);
        }),
      // Timed inside its process: sending the listing over a pipe does not count.
      theirs: async () => {
        const { inventory: entries, elapsedSeconds } = await python.inspectDomain(store);
        if (entries.length !== artifacts) throw new Error(`${entries.length} entries`);
        return elapsedSeconds * 1000;
      },
    });
    return [atMost('inventory of 10,000 artifacts, against inspect_domain of vllm-omni', 0.5, runs, times)];
  } finally {
    await python.close();
  }
}
