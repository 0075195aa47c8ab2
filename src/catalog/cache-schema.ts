/** The tables of the cache, version by version. A migration that was released is never edited. */
import type { DatabaseKind } from './database.ts';

/** Counts as newer what it does not know, so an older Weightroom leaves the file alone. */
export const cacheKind: DatabaseKind = {
  name: 'the catalog',
  loss: 'Nothing is lost but time: stores are read anew.',
  applicationId: 0x57726331,
  migrations: [
    `
CREATE TABLE domain (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL,
  root TEXT NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  -- Rises with every write to the domain's entries: who has seen it equal has seen them all.
  revision INTEGER NOT NULL DEFAULT 0,
  UNIQUE (uuid, root)
) STRICT;

-- The tensors of a manifest but for their digests. Artifacts of one model, whatever revision or rank, share them.
CREATE TABLE structure (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE tensor (
  structure INTEGER NOT NULL REFERENCES structure ON DELETE CASCADE,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  dtype TEXT NOT NULL,
  shape TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (structure, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  domain INTEGER NOT NULL REFERENCES domain ON DELETE CASCADE,
  state TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  signature TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  allocated_bytes INTEGER NOT NULL,
  freeable_bytes INTEGER NOT NULL,
  reason TEXT,
  invalidated INTEGER NOT NULL,
  modified_ns TEXT NOT NULL,
  model TEXT,
  model_revision TEXT,
  component TEXT,
  representation TEXT,
  dtype TEXT,
  layout TEXT,
  tensor_parallel_size INTEGER,
  tensor_parallel_rank INTEGER,
  producer TEXT,
  problem TEXT,
  content_sha256 TEXT,
  structure INTEGER REFERENCES structure,
  -- Lower case, what a person may search for.
  words TEXT NOT NULL,
  UNIQUE (domain, state, name)
) STRICT;

CREATE INDEX entry_overview ON entry
  (domain, state, model, representation, bytes, allocated_bytes, freeable_bytes);
CREATE INDEX entry_structure ON entry (structure);

CREATE TABLE verification (
  domain INTEGER NOT NULL REFERENCES domain ON DELETE CASCADE,
  key TEXT NOT NULL,
  -- Of the artifact that was checked: another one under the same key was not.
  signature TEXT NOT NULL,
  level TEXT NOT NULL,
  status TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (domain, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE source_file (
  device TEXT NOT NULL,
  inode TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns TEXT NOT NULL,
  ctime_ns TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  digested_at_ms INTEGER NOT NULL,
  PRIMARY KEY (device, inode)
) STRICT, WITHOUT ROWID;
`,
  ],
};
