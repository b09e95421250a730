-- What was done to the file that no append tells, and what was taken out of it: never what it said.

-- One row an act.
CREATE TABLE admin_act (
    number       INTEGER PRIMARY KEY,            -- 1, 2, 3, … without a gap
    at           INTEGER NOT NULL,               -- microseconds since 1970 UTC, this machine's clock
    act          TEXT    NOT NULL,               -- what was done: delete, erase, redact, prune, archive, …
    conversation TEXT,                           -- id of the one it was done to, which may be gone; NULL: to the file
    reason       TEXT,                           -- as it was given
    os_user      TEXT,                           -- who did it, as the operating system calls them
    host         TEXT,                           -- on which machine
    program      TEXT    NOT NULL,               -- with which program, and its version
    detail       TEXT    NOT NULL,               -- JSON object: figures
    hash         BLOB    NOT NULL CHECK (length(hash) = 32) -- over this row, its receipts and the row before
) STRICT;

CREATE INDEX admin_act_by_conversation ON admin_act (conversation, number) WHERE conversation IS NOT NULL;

-- One row for each thing that an act took out or changed.
CREATE TABLE admin_receipt (
    act        INTEGER NOT NULL REFERENCES admin_act (number),
    place      INTEGER NOT NULL,                 -- 0-based within the act
    part       TEXT    NOT NULL,                 -- event, base_state, attachment, title, …
    name       TEXT    NOT NULL,                 -- an event's id, a field's name, a path; '' where there is only one
    sequence   INTEGER,                          -- of an event
    digest     BLOB CHECK (length(digest) = 32), -- SHA-256 of what was there, where it is kept
    new_digest BLOB CHECK (length(new_digest) = 32), -- SHA-256 of what is there now
    PRIMARY KEY (act, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX admin_receipt_by_name ON admin_receipt (part, name);

CREATE TRIGGER admin_act_insert_guard BEFORE INSERT ON admin_act
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the administrative log');
END;

CREATE TRIGGER admin_act_update_guard BEFORE UPDATE ON admin_act
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

CREATE TRIGGER admin_act_delete_guard BEFORE DELETE ON admin_act
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

CREATE TRIGGER admin_receipt_insert_guard BEFORE INSERT ON admin_receipt
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the administrative log');
END;

CREATE TRIGGER admin_receipt_update_guard BEFORE UPDATE ON admin_receipt
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

CREATE TRIGGER admin_receipt_delete_guard BEFORE DELETE ON admin_receipt
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

CREATE VIEW admin_log AS
SELECT a.number                                                         AS number,
       strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch')
           || printf('.%06dZ', a.at % 1000000)                          AS at,
       a.act                                                            AS act,
       a.conversation                                                   AS conversation_id,
       a.reason                                                         AS reason,
       a.os_user                                                        AS os_user,
       a.host                                                           AS host,
       a.program                                                        AS program,
       a.detail                                                         AS detail,
       (SELECT count(*) FROM admin_receipt AS r WHERE r.act = a.number) AS receipts,
       lower(hex(a.hash))                                               AS hash
FROM admin_act AS a;

CREATE VIEW admin_receipts AS
SELECT r.act                                                            AS act_number,
       a.act                                                            AS act,
       a.conversation                                                   AS conversation_id,
       r.part                                                           AS part,
       r.name                                                           AS name,
       r.sequence                                                       AS sequence,
       nullif(lower(hex(r.digest)), '')                                 AS sha256_before,
       nullif(lower(hex(r.new_digest)), '')                             AS sha256_after
FROM admin_receipt AS r
JOIN admin_act AS a ON a.number = r.act;

-- Payloads that were compressed. `event` holds {"annals":"archived"} in the place of each.

-- What zstd was taught from payloads, pieces of which it holds.
CREATE TABLE archive_dictionary (
    key      INTEGER PRIMARY KEY,
    content  BLOB    NOT NULL,
    is_stale INTEGER NOT NULL DEFAULT 0          -- 1: it may hold pieces of what was deleted since
) STRICT;

-- The conversations it was taught from.
CREATE TABLE archive_source (
    dictionary   INTEGER NOT NULL REFERENCES archive_dictionary (key),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    PRIMARY KEY (conversation, dictionary)
) STRICT, WITHOUT ROWID;

CREATE INDEX archive_source_by_dictionary ON archive_source (dictionary);

-- One row an archived conversation.
CREATE TABLE archived_conversation (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    dictionary   INTEGER REFERENCES archive_dictionary (key), -- NULL: compressed without one
    archived_at  INTEGER NOT NULL                -- microseconds since 1970 UTC
) STRICT;

CREATE INDEX archived_conversation_by_dictionary ON archived_conversation (dictionary);

-- One row a compressed payload.
CREATE TABLE archived_payload (
    position INTEGER PRIMARY KEY,
    bytes    INTEGER NOT NULL,                   -- of the payload
    content  BLOB    NOT NULL                    -- a zstd frame (RFC 8878)
) STRICT;

-- The views of V5 with what they have to say of this, at their ends. A payload that is a stub has no text.
DROP VIEW conversations;

CREATE VIEW conversations AS
SELECT c.id                                                             AS conversation_id,
       coalesce(c.title, c.first_message)                               AS title,
       c.status                                                         AS status,
       c.tags                                                           AS tags,
       c.event_count                                                    AS event_count,
       c.payload_bytes                                                  AS payload_bytes,
       strftime('%Y-%m-%dT%H:%M:%S', c.created_at / 1000000, 'unixepoch')
           || printf('.%06dZ', c.created_at % 1000000)                  AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', c.updated_at / 1000000, 'unixepoch')
           || printf('.%06dZ', c.updated_at % 1000000)                  AS updated_at,
       c.first_timestamp                                                AS first_timestamp,
       c.last_timestamp                                                 AS last_timestamp,
       c.leaf_event_id                                                  AS leaf_event_id,
       c.head_is_empty                                                  AS head_is_empty,
       p.id                                                             AS parent_id,
       c.forked_from                                                    AS forked_from,
       c.forked_at                                                      AS forked_at,
       lower(hex(c.head_hash))                                          AS head_hash,
       (SELECT strftime('%Y-%m-%dT%H:%M:%S', a.archived_at / 1000000, 'unixepoch')
                   || printf('.%06dZ', a.archived_at % 1000000)
        FROM archived_conversation AS a WHERE a.conversation = c.key)   AS archived_at
FROM conversation AS c
LEFT JOIN conversation AS p ON p.key = c.parent;

DROP VIEW events;

CREATE VIEW events AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.id                                                             AS event_id,
       e.kind                                                           AS kind,
       e.source                                                         AS source,
       e.timestamp                                                      AS timestamp,
       e.parent_id                                                      AS parent_id,
       e.tool_name                                                      AS tool_name,
       e.tool_call_id                                                   AS tool_call_id,
       e.action_id                                                      AS action_id,
       e.llm_response_id                                                AS llm_response_id,
       strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', e.recorded_at % 1000000)                 AS recorded_at,
       lower(hex(e.hash))                                               AS hash,
       coalesce((SELECT a.bytes FROM archived_payload AS a WHERE a.position = e.position),
                length(CAST(e.payload AS BLOB)))                        AS payload_bytes,
       e.payload                                                        AS payload,
       nullif(lower(hex(e.redacted_digest)), '')                        AS redacted_sha256,
       EXISTS (SELECT 1 FROM archived_payload AS a WHERE a.position = e.position) AS is_archived
FROM event AS e
JOIN conversation AS c ON c.key = e.conversation;

DROP VIEW transcript;

CREATE VIEW transcript AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.id                                                             AS event_id,
       e.timestamp                                                      AS timestamp,
       e.kind                                                           AS kind,
       t.role                                                           AS role,
       e.tool_name                                                      AS tool,
       CASE WHEN e.payload = '{"annals":"archived"}' THEN '' ELSE
           (SELECT coalesce(group_concat(part, char(10)), '')
            FROM (SELECT json_extract(CAST(substr(CAST(e.payload AS BLOB), start.value + 1, bytes.value) AS TEXT),
                                      '$') AS part
                  FROM json_each(t.parts) AS start
                  JOIN json_each(t.parts) AS bytes ON bytes.key = start.key + 1
                  WHERE start.key % 2 = 0
                  ORDER BY start.key)) END                              AS text
FROM transcript_line AS t
JOIN event AS e ON e.position = t.position
JOIN conversation AS c ON c.key = e.conversation;
