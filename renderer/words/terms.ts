/** The field's words, each in one line. */
export const terms = {
  store: 'A folder that holds finished weights for every worker on this machine to map and share.',
  domain: 'One store with its own rules: workers that use it agree on its policy.',
  artifact: 'One finished set of weights, named by a key that says exactly what went into it.',
  key: 'SHA-256 of the identity: model, revision, dtype, layout and rank. The same key is the same weights.',
  admission: 'Whether builds into this store run side by side or one at a time.',
  concurrent: 'Builds run side by side.',
  serialized: 'Builds run one at a time.',
  lease: 'A shared lock held by whoever uses an artifact now. Nothing that is leased is removed.',
  policy: 'The rules written into the store when it was made. They never change.',
  quarantine: 'Where artifacts go that something was wrong with. They are not served and can be looked at.',
  fileSystem: 'What kind of disk the store is on. Locks and atomic renames must work there.',
  reclaimable: 'What a cleanup could free without touching an artifact that is served.',
  representation: 'How the numbers are stored: as in the checkpoint, or converted.',
  layout: 'How tensors are cut into ranks, for tensor parallelism.',
  integrity: 'Whether the bytes on disk are still those that were published.',
} as const;

export type TermName = keyof typeof terms;
