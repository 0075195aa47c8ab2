/** The desktop's own notices, for who looks elsewhere: work that ended, well or badly, and work that is stuck. */
import { Notification } from 'electron';
import type { ActivityEntry } from '../src/contract/app-schemas.ts';
import type { Topic } from '../src/host/topic.ts';

/** `isSeen`: the person looks at the window now, and reads it there. `show` goes to a page by its fragment. */
export function notifyOf(
  added: Pick<Topic<ActivityEntry>, 'subscribe'>,
  isSeen: () => boolean,
  show: (hash: string) => void,
): void {
  // A notification that is collected does not answer to a click.
  const shown = new Set<Notification>();
  added.subscribe((entry) => {
    const notice = noticeOf(entry);
    if (notice === null || isSeen() || !Notification.isSupported()) return;
    const notification = new Notification({ title: notice.title, body: entry.message });
    const forget = (): void => void shown.delete(notification);
    notification.on('click', () => {
      forget();
      show(notice.hash);
    });
    notification.on('close', forget);
    shown.add(notification);
    notification.show();
  });
}

interface Notice {
  readonly title: string;
  readonly hash: string;
}

/** Null: not worth taking anybody's eyes off their work. */
export function noticeOf({ kind, severity }: Pick<ActivityEntry, 'kind' | 'severity'>): Notice | null {
  const isBad = severity === 'failure';
  if (kind === 'build-ended') return { title: isBad ? 'A build failed' : 'A build ended', hash: '#/builds' };
  if (isBad) return { title: 'Weightroom needs a look', hash: '#/activity' };
  return null;
}
