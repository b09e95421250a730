-- The second chain of a conversation: what stands beside its events, and every change of that. One row for each time
-- that something was set, changed or taken away. Nothing newer than SQLite 3.38 may stand in a view, for the reason V5
-- gives.

CREATE TABLE change (
    conversation   INTEGER NOT NULL REFERENCES conversation (key),
    number         INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … without a gap
    subject        TEXT    NOT NULL,             -- title, tags, base_state, attachment, …
    name           TEXT    NOT NULL,             -- which of them: a path, a version, a sequence; '' where there is only one
    digest         BLOB CHECK (length(digest) = 32), -- SHA-256 of what stands there since then; NULL: nothing does
    after_sequence INTEGER NOT NULL,             -- of the event it followed; -1: before the first
    recorded_at    INTEGER NOT NULL,             -- microseconds since 1970 UTC, this machine's clock
    actor          TEXT    NOT NULL,             -- who, and with which program
    hash           BLOB    NOT NULL CHECK (length(hash) = 32), -- over this row and the row before
    PRIMARY KEY (conversation, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER change_insert_guard BEFORE INSERT ON change
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the chain of changes');
END;

CREATE TRIGGER change_update_guard BEFORE UPDATE ON change
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the chain of changes is append-only');
END;

CREATE TRIGGER change_delete_guard BEFORE DELETE ON change
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the chain of changes is append-only');
END;

-- Since when the chains of changes hold: a file that is older than they are got them when it was upgraded.
ALTER TABLE log ADD COLUMN changes_since INTEGER; -- microseconds since 1970 UTC; NULL: since the file was made

-- Who made a change of a base state; NULL: it is older than this column.
ALTER TABLE base_state_change ADD COLUMN actor TEXT;

CREATE INDEX repair_by_conversation ON repair (conversation_id, key);

CREATE VIEW changes AS
SELECT c.id                                                             AS conversation_id,
       x.number                                                         AS number,
       x.subject                                                        AS subject,
       x.name                                                           AS name,
       x.after_sequence                                                 AS after_sequence,
       x.actor                                                          AS actor,
       strftime('%Y-%m-%dT%H:%M:%S', x.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', x.recorded_at % 1000000)                 AS recorded_at,
       nullif(lower(hex(x.digest)), '')                                 AS sha256,
       lower(hex(x.hash))                                               AS hash
FROM change AS x
JOIN conversation AS c ON c.key = x.conversation;

DROP VIEW base_state_changes;

CREATE VIEW base_state_changes AS
SELECT c.id                                                             AS conversation_id,
       b.version                                                        AS version,
       b.sequence                                                       AS after_sequence,
       b.field                                                          AS field,
       b.value                                                          AS value,
       strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000)                 AS recorded_at,
       b.actor                                                          AS actor
FROM base_state_change AS b
JOIN conversation AS c ON c.key = b.conversation;
