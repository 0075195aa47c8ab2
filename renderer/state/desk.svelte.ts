/** Everything that the whole page shares: the connection, the route, and what every page may need to know. */
import type { ActivityEntry, AppEvent, AppStatus, Settings, Theme } from '../../src/contract/app-schemas.ts';
import { Connection } from '../connection/connection.svelte.ts';
import type { OpenTransport } from '../connection/transport.ts';
import { Announcer } from './announcer.svelte.ts';
import { Builds } from './builds.svelte.ts';
import { LiveValue } from './live-value.svelte.ts';
import { Router } from './router.svelte.ts';
import { Stores } from './stores.svelte.ts';

const activityLimit = 200;

export class Desk {
  readonly connection: Connection;
  readonly router = new Router();
  readonly announcer = new Announcer();
  readonly stores: Stores;
  readonly builds: Builds;
  readonly status: LiveValue<AppStatus>;
  readonly settings: LiveValue<Settings>;
  readonly activity: LiveValue<{ readonly entries: readonly ActivityEntry[]; readonly more: boolean }>;
  #nowMs = $state(Date.now());

  constructor(openTransport: OpenTransport) {
    this.connection = new Connection(openTransport);
    this.stores = new Stores(this.connection);
    this.builds = new Builds(this.connection);
    this.status = new LiveValue(this.connection, (client) => client.app.status());
    this.settings = new LiveValue(this.connection, (client) => client.settings.get());
    this.activity = new LiveValue(
      this.connection,
      (client) => client.activity.list({ limit: activityLimit }),
      300,
    );
  }

  /** The time, to the second: for what is counted while somebody looks. */
  get nowMs(): number {
    return this.#nowMs;
  }

  get theme(): Theme {
    return this.settings.value?.theme ?? 'system';
  }

  start(): void {
    this.router.start();
    this.connection.live((client, signal) => this.#follow(client, signal));
    this.connection.start();
    this.builds.start();
    setInterval(() => {
      this.#nowMs = Date.now();
    }, 1000);
  }

  async setTheme(theme: Theme): Promise<void> {
    this.settings.set(await this.connection.client.settings.update({ theme }));
  }

  async #follow(client: Connection['client'], signal: AbortSignal): Promise<void> {
    for await (const event of await client.app.events(undefined, { signal })) this.#take(event);
  }

  #take(event: AppEvent): void {
    switch (event.type) {
      case 'subscribed':
        for (const part of [this.stores, this.builds, this.status, this.settings, this.activity]) {
          void part.refresh();
        }
        return;
      case 'stores':
        void this.stores.refresh();
        return;
      case 'activity':
        void this.activity.refresh();
        return;
      case 'settings':
        this.settings.set(event.settings);
        void this.stores.refresh();
        return;
      case 'builds':
        void this.builds.refresh();
        return;
    }
  }
}
