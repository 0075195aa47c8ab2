/** A supervisor to be killed: starts the build that its argument asks for and tells where it is. */
import { startBuild } from '../../../src/production/build-supervisor.ts';
import type { BuildRequest } from '../../../src/production/build-protocol.ts';

const build = startBuild(JSON.parse(process.argv[2] as string) as BuildRequest, {
  onEvent: (event) => console.log(JSON.stringify({ ...event, pid: build.pid })),
});
await build.result;
