/** The tables of the history, version by version. A migration that was released is never edited. */
import type { DatabaseKind } from './database.ts';

export const historyKind: DatabaseKind = {
  name: 'the history',
  loss: 'What happened before is not known, and nothing is called unused until it was watched for long enough.',
  applicationId: 0x57726832,
  migrations: [
    `
-- When leases of a domain were watched: a span for each time without a gap.
CREATE TABLE watch (
  id INTEGER PRIMARY KEY,
  domain_uuid TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX watch_domain ON watch (domain_uuid, until_ms);

CREATE TABLE lease_sighting (
  domain_uuid TEXT NOT NULL,
  key TEXT NOT NULL,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  -- Of the last one that was seen; 0 and empty where the holder was not visible.
  pid INTEGER NOT NULL,
  command TEXT NOT NULL,
  PRIMARY KEY (domain_uuid, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE build (
  id TEXT PRIMARY KEY,
  root TEXT NOT NULL,
  key TEXT,
  status TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  -- The rest, as JSON.
  document TEXT NOT NULL
) STRICT;

CREATE TABLE registration_session (
  id TEXT PRIMARY KEY,
  domain_uuid TEXT NOT NULL,
  key TEXT NOT NULL,
  device TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  document TEXT NOT NULL
) STRICT;

CREATE TABLE registration_event (
  id INTEGER PRIMARY KEY,
  session TEXT NOT NULL REFERENCES registration_session ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  document TEXT NOT NULL
) STRICT;
CREATE INDEX registration_event_session ON registration_event (session, at_ms);

CREATE TABLE cleanup (
  id TEXT PRIMARY KEY,
  domain_uuid TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  planned_bytes INTEGER NOT NULL,
  -- What the file system gained; null where that could not be measured.
  freed_bytes INTEGER,
  document TEXT NOT NULL
) STRICT;
CREATE INDEX cleanup_domain ON cleanup (domain_uuid, at_ms);
`,
  ],
};
