-- The log: one row an event, in the order of commit, never changed.
-- Read it through the views of a later migration; docs/format.md is the contract.

-- What this file is. One row.
CREATE TABLE log (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    store_id       TEXT    NOT NULL,             -- UUID, minted with the file
    created_at     INTEGER NOT NULL,             -- microseconds since 1970 UTC
    position_floor INTEGER NOT NULL DEFAULT 0    -- no event may take a position up to here: they were given and deleted
) STRICT;

-- One row a conversation: what lists, searches and counts read. Moves with every append.
CREATE TABLE conversation (
    key             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 200),
    event_count     INTEGER NOT NULL DEFAULT 0,  -- also the next sequence
    action_count    INTEGER NOT NULL DEFAULT 0,  -- how many of them are an ActionEvent,
    observation_count INTEGER NOT NULL DEFAULT 0, -- and an ObservationEvent; event_by_rare_kind counts the others
    payload_bytes   INTEGER NOT NULL DEFAULT 0,  -- sum over its events
    head_hash       BLOB    NOT NULL CHECK (length(head_hash) = 32),
    leaf_event_id   TEXT,                        -- HEAD; NULL: see head_is_empty
    head_is_empty   INTEGER NOT NULL DEFAULT 0,  -- 1: HEAD was set to "before everything"; 0 with no leaf: never set
    status          TEXT    NOT NULL DEFAULT 'idle',
    title           TEXT,                        -- given by someone
    first_message   TEXT,                        -- start of the first user message
    tags            TEXT    NOT NULL DEFAULT '{}', -- JSON object, text to text
    created_at      INTEGER NOT NULL,            -- microseconds since 1970 UTC: the first event's own time
    updated_at      INTEGER NOT NULL,            -- the last event's own time
    updated_minute  INTEGER NOT NULL DEFAULT 0,  -- the same in minutes: an index on it rarely has to move
    first_timestamp TEXT,                        -- as the first event writes it
    last_timestamp  TEXT,                        -- as the last event writes it
    parent          INTEGER REFERENCES conversation (key), -- of a sub-agent's conversation
    forked_from     TEXT,                        -- id of the conversation this is a fork of
    forked_at       TEXT                         -- the event it was forked at
) STRICT;

CREATE INDEX conversation_by_creation ON conversation (created_at, key);
CREATE INDEX conversation_by_update ON conversation (updated_minute);
CREATE INDEX conversation_by_parent ON conversation (parent) WHERE parent IS NOT NULL;

CREATE TABLE event (
    position        INTEGER PRIMARY KEY,         -- place in the whole log, 1-based, ascending in the order of commit
    conversation    INTEGER NOT NULL REFERENCES conversation (key) DEFERRABLE INITIALLY DEFERRED,
    sequence        INTEGER NOT NULL CHECK (sequence >= 0), -- place in the conversation, 0-based, dense
    id              TEXT    NOT NULL CHECK (length(id) > 0),
    kind            TEXT    NOT NULL,            -- from here to tool_name: copied from the payload, NULL where it has none
    source          TEXT,
    timestamp       TEXT,                        -- as written; usually local time without a zone
    parent_id       TEXT,
    tool_call_id    TEXT,
    action_id       TEXT,
    llm_response_id TEXT,
    tool_name       TEXT,
    recorded_at     INTEGER NOT NULL,            -- microseconds since 1970 UTC, this machine's clock
    hash            BLOB    NOT NULL CHECK (length(hash) = 32),
    redacted_digest BLOB,                        -- SHA-256 of the payload that was here, where it had to go
    payload         TEXT    NOT NULL,            -- the event, byte for byte as it came
    UNIQUE (conversation, sequence),
    UNIQUE (conversation, id)
) STRICT;

-- Nine of ten events are of the two kinds that are left out: reading them in order of sequence finds them
-- soon enough, and every index that an append has to move costs a tenth of its time.
CREATE INDEX event_by_rare_kind ON event (conversation, kind, sequence)
WHERE kind NOT IN ('ActionEvent', 'ObservationEvent');

-- A row here, for the length of one transaction, lets redaction and deletion pass the guards below.
CREATE TABLE maintenance (reason TEXT NOT NULL) STRICT;

-- Only Annals has the function that this guard asks, so no other program can insert, least of all with OR
-- REPLACE, which would take events away unseen. Its name is what such a program gets to read.
-- FAIL and not ABORT, and a deferred reference above: only so does SQLite write an event without first
-- journalling every page it changes, in case the statement has to be undone.
CREATE TRIGGER event_insert_guard BEFORE INSERT ON event
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals appends to the log');
END;

CREATE TRIGGER event_update_guard BEFORE UPDATE ON event
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the log is append-only');
END;

CREATE TRIGGER event_delete_guard BEFORE DELETE ON event
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the log is append-only');
END;
