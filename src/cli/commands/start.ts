/** `weightroom start`: the way in for a newcomer. Runs the sample until there is an app to start. */
import type { Command } from '../command.ts';
import { command as sample, showSample } from './sample.ts';

export const command: Command = {
  ...sample,
  details: `The desktop app comes next. Until it is here, this runs the sample: a small checkpoint becomes an artifact in a
store under the XDG data directory.`,
  example: 'weightroom start',
  run: (invocation) =>
    showSample(invocation, [
      'The desktop app comes next. Until it is here, this is the main job on a small sample.',
      '',
    ]),
};
