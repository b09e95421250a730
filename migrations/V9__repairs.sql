-- What moving conversations about leaves behind: those that are still on their way in, and what was repaired.

-- An import, or a copy from another file, that has begun and not ended. One row a conversation, gone at the end.
CREATE TABLE arrival (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    source       TEXT    NOT NULL,               -- the path it is read from
    began_at     INTEGER NOT NULL                -- microseconds since 1970 UTC, this machine's clock
) STRICT;

-- The receipts of `annals doctor`: one row for each thing it mended. They outlive the conversation.
CREATE TABLE repair (
    key             INTEGER PRIMARY KEY,
    conversation_id TEXT,                        -- NULL: it was the file's
    finding         TEXT    NOT NULL,            -- which finding: its name
    found           TEXT    NOT NULL,            -- what was found, in words
    done            TEXT    NOT NULL,            -- what was done, in words
    event_ids       TEXT    NOT NULL,            -- JSON array: the events that were appended
    head_before     TEXT,                        -- HEAD before and after, where it moved; '' for before everything
    head_after      TEXT,
    program         TEXT    NOT NULL,            -- name and version of the program that did it
    repaired_at     INTEGER NOT NULL             -- microseconds since 1970 UTC, this machine's clock
) STRICT;

CREATE TRIGGER repair_update_guard BEFORE UPDATE ON repair
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: receipts are append-only');
END;

CREATE TRIGGER repair_delete_guard BEFORE DELETE ON repair
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: receipts are append-only');
END;

CREATE VIEW repairs AS
SELECT r.conversation_id                                                AS conversation_id,
       r.finding                                                        AS finding,
       r.found                                                          AS found,
       r.done                                                           AS done,
       r.event_ids                                                      AS event_ids,
       r.head_before                                                    AS head_before,
       r.head_after                                                     AS head_after,
       r.program                                                        AS program,
       strftime('%Y-%m-%dT%H:%M:%S', r.repaired_at / 1000000, 'unixepoch')
           || printf('.%06dZ', r.repaired_at % 1000000)                 AS repaired_at
FROM repair AS r;
