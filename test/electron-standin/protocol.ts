/** What a spec and the stand-in's process say to each other. */

export type Recorded = { readonly call: string } & Readonly<Record<string, unknown>>;

export interface Answer {
  /** Of a dialog for files; null: the person closed it. */
  readonly path?: string | null;
  /** Of a message: the number of the button. */
  readonly button?: number;
}

export type Order =
  | {
      readonly do: 'invoke-as';
      readonly who:
        | 'own page'
        | 'frame in the page'
        | 'page of another origin'
        | 'another page'
        | 'frame that is gone'
        | 'another window';
      readonly channel: string;
    }
  | { readonly do: 'ask-permission'; readonly permission: string }
  | { readonly do: 'fetch'; readonly url: string; readonly method?: string }
  | { readonly do: 'answer-dialog'; readonly answer: Answer }
  | { readonly do: 'click-menu'; readonly label: string }
  | { readonly do: 'click-notification' | 'crash-page' | 'crash-helper' | 'move-window' | 'close-window' };

export type FromStandIn =
  | { readonly type: 'recorded'; readonly what: Recorded }
  | { readonly type: 'loaded'; readonly debuggingPort: number }
  | { readonly type: 'done'; readonly id: number; readonly value?: unknown; readonly error?: string };
