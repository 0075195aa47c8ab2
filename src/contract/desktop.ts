/**
 * What only the desktop app can do, in addition to the contract: native dialogs. A page asks for it over the
 * same port, and does without where there is none.
 */
import type { ContractRouterClient } from '@orpc/contract';
import { z } from 'zod';
import { nothing } from './app-schemas.ts';
import { call, type DeskContract } from './contract.ts';
import { pathText } from './values.ts';

const title = z.string().min(1).max(200);
/** Null: the person closed the dialog. */
const chosen = z.object({ path: z.string().nullable() });

export const choiceRequest = z.strictObject({
  title,
  /** Where to begin; null: where the desktop likes. */
  path: pathText.nullable().default(null),
  /** A file is asked for, and not a folder. */
  file: z.boolean().default(false),
});

/** A text that the page shows, and that the person wants as a file. */
export const saveRequest = z.strictObject({
  title,
  /** What to call it, without a folder. */
  name: z.string().regex(/^[^/\0]{1,200}$/),
  text: z.string().max(16 * 1024 ** 2),
});

export const desktopContract = {
  choose: call.input(choiceRequest).output(chosen),
  /** Writes it where the person says. */
  save: call.input(saveRequest).output(chosen),
  /** Shows it in the desktop's file manager. */
  reveal: call.input(z.strictObject({ path: pathText })).output(nothing),
};
export type DesktopContract = typeof desktopContract;

/** Over the desktop app's port. */
export type DesktopClient = ContractRouterClient<DeskContract & { readonly desktop: DesktopContract }>;
