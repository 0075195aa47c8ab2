/** Who builds or uses a key, from the kernel's table, in the words of a plan. Takes and disturbs no lock. */
import { namedLockStates, type LockState } from '../store/lock-holders.ts';
import { artifactLock, buildLock } from '../store/paths.ts';

export interface Holder {
  readonly pid: number;
  readonly command: string;
}

export interface LockInTheWay {
  readonly because: 'building' | 'leased' | 'unknown-lock';
  readonly reason: string;
  readonly holders: readonly Holder[];
}

export class LockWords {
  readonly #states: ReadonlyMap<string, LockState>;

  private constructor(states: readonly LockState[]) {
    this.#states = new Map(states.map((state) => [state.name, state]));
  }

  static async of(root: string, keys: readonly string[]): Promise<LockWords> {
    return new LockWords(
      await namedLockStates(
        root,
        keys.flatMap((key) => [buildLock(key), artifactLock(key)]),
      ),
    );
  }

  /** The build lock is asked first, as it is taken first. */
  inTheWay(key: string): LockInTheWay | null {
    return (
      wordsOf(this.#states.get(buildLock(key)), 'building', 'is being built') ??
      wordsOf(this.#states.get(artifactLock(key)), 'leased', 'is in use')
    );
  }
}

function wordsOf(
  state: LockState | undefined,
  because: 'building' | 'leased',
  words: string,
): LockInTheWay | null {
  if (state === undefined || state.state === 'free') return null;
  if (state.state === 'unknown') {
    const reason = `its lock file locks/${state.name} is not yours to open, so nobody can tell whether it ${words}`;
    return { because: 'unknown-lock', reason, holders: [] };
  }
  const holders = state.holders.filter(({ pid }) => pid > 0).map(({ pid, command }) => ({ pid, command }));
  const who = holders.map(({ pid, command }) => `process ${pid} (${command})`).join(', ');
  return {
    because,
    reason: `${words} by ${who === '' ? 'a process that is not visible from here' : who}`,
    holders,
  };
}
