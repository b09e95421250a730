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
       lower(hex(r.digest))                                             AS sha256_before,
       lower(hex(r.new_digest))                                         AS sha256_after
FROM admin_receipt AS r
JOIN admin_act AS a ON a.number = r.act;
