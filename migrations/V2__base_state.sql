-- The base state: the one document of a conversation that changes, with the history of its changes.

CREATE TABLE base_state (
    conversation     INTEGER PRIMARY KEY REFERENCES conversation (key),
    version          INTEGER NOT NULL CHECK (version >= 0), -- +1 for every saved change
    document         TEXT    NOT NULL,           -- JSON object as of document_version
    document_version INTEGER NOT NULL CHECK (document_version BETWEEN 0 AND version),
    first_document   TEXT                        -- as of version 0, once document_version has moved on
) STRICT;

-- One row for each field that a version changed.
CREATE TABLE base_state_change (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    version      INTEGER NOT NULL CHECK (version > 0),
    field        TEXT    NOT NULL,
    value        TEXT,                           -- JSON; NULL: the field was taken away
    sequence     INTEGER NOT NULL,               -- of the event it followed; -1: before the first
    recorded_at  INTEGER NOT NULL,               -- microseconds since 1970 UTC, this machine's clock
    UNIQUE (conversation, version, field)
) STRICT;

-- Where HEAD stood: one row for each time it moved in a way that no append tells.
CREATE TABLE head_change (
    conversation  INTEGER NOT NULL REFERENCES conversation (key),
    sequence      INTEGER NOT NULL,              -- of the event it followed; -1: before the first
    leaf_event_id TEXT,                          -- NULL: before everything
    recorded_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX head_change_by_sequence ON head_change (conversation, sequence);

CREATE TRIGGER base_state_change_update_guard BEFORE UPDATE ON base_state_change
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the history of changes is append-only');
END;

CREATE TRIGGER base_state_change_delete_guard BEFORE DELETE ON base_state_change
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the history of changes is append-only');
END;
