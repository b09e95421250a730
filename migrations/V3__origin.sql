-- Where a conversation came from, so that it can be written back as it was.

CREATE TABLE origin (
    conversation     INTEGER PRIMARY KEY REFERENCES conversation (key),
    source           TEXT    NOT NULL,           -- the path it was read from
    folder           TEXT    NOT NULL,           -- name of its folder, or of its file where it was a single one
    is_file          INTEGER NOT NULL,           -- 1: it was a single file
    events_directory TEXT    NOT NULL,           -- within the folder, '' or ending in '/'
    container        TEXT,                       -- the file that holds all events, where one does
    prefix           TEXT,                       -- text before the first event in it; NULL: the whole file is an attachment
    separator        TEXT,
    suffix           TEXT,
    events           INTEGER NOT NULL,           -- how many came from there
    base_state_path  TEXT,                       -- where the base state was
    imported_at      INTEGER NOT NULL            -- microseconds since 1970 UTC, this machine's clock
) STRICT;

CREATE INDEX origin_by_folder ON origin (folder);

-- The file of an event, where it is not the one that export would choose.
CREATE TABLE event_file (
    position INTEGER PRIMARY KEY,
    path     TEXT NOT NULL                       -- within the events directory
) STRICT;

-- Contents of attachments, each kept once.
CREATE TABLE blob (
    key     INTEGER PRIMARY KEY,
    digest  BLOB NOT NULL UNIQUE CHECK (length(digest) = 32), -- SHA-256
    content BLOB NOT NULL
) STRICT;

-- Files of a conversation that are not events.
CREATE TABLE attachment (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    path         TEXT    NOT NULL,               -- within the folder; ends in '/' for an empty folder
    blob         INTEGER NOT NULL REFERENCES blob (key),
    reason       TEXT,                           -- why this is no event, where it looked like one
    UNIQUE (conversation, path)
) STRICT;

CREATE INDEX attachment_by_blob ON attachment (blob);

-- What an import found wrong, and what it did about it.
CREATE TABLE problem (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    path         TEXT    NOT NULL,
    problem      TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    found_at     INTEGER NOT NULL                -- microseconds since 1970 UTC, this machine's clock
) STRICT;

CREATE INDEX problem_by_conversation ON problem (conversation);
