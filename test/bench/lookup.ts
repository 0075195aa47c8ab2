/** Lookup at the metadata level of an artifact with 1,000 tensors, against the Python package's. */
import { join } from 'node:path';
import { lookup as find } from '../../src/store/lookup.ts';
import { ensurePython } from '../interop/environment.ts';
import { identityText } from '../interop/our-side.ts';
import { PythonSide } from '../interop/python-side.ts';
import { atMost, contest, timed, type Ratio } from './measure.ts';
import { newDomain, publish } from './stores.ts';

const runs = 25;

export async function lookup(folder: string): Promise<Ratio[]> {
  await ensurePython();
  const domain = await newDomain(join(folder, 'lookup'));
  const label = 'a thousand tensors';
  const identity = await publish(domain, { label, files: 1, tensorsPerFile: 1000, bytesPerTensor: 8192 });
  const python = await PythonSide.start();
  try {
    const { store } = await python.open({ root: domain.root });
    const times = await contest({
      runs,
      ours: () =>
        timed(async () => {
          const found = await find(domain, identity, { deadline: null });
          if (found.status !== 'hit') throw new Error(JSON.stringify(found));
          found.lease.close();
        }),
      // The package's own call is timed inside its process: asking for it over a pipe does not count.
      theirs: async () => {
        const found = await python.lookup(store, identityText(label), { digests: false });
        if (found.status !== 'hit') throw new Error(JSON.stringify(found.failure));
        return found.elapsedSeconds * 1000;
      },
    });
    return [
      atMost('lookup (metadata level) of 1,000 tensors, against lookup of vllm-omni', 0.5, runs, times),
    ];
  } finally {
    await python.close();
  }
}
