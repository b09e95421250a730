-- What people ask first of a conversation: where it worked, which program wrote it, which model answered, who started it.
-- Derived once, by a projection, and not in every query. Nothing newer than SQLite 3.38 may stand here, for the reason V5
-- gives.

-- One row a conversation with an event or a base state. NULL: nothing says it.
CREATE TABLE conversation_fact (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    workspace    TEXT,                           -- the folder that it worked in, or the repository
    source       TEXT,                           -- the program that wrote its log: annals, openhands, codex, …
    model        TEXT,
    started_by   TEXT,                           -- a user, or the name of a key
    is_by_calls  INTEGER NOT NULL                -- 1: the model follows from the calls in the base state, so that new figures may change it
) STRICT;

CREATE INDEX conversation_fact_by_workspace ON conversation_fact (workspace) WHERE workspace IS NOT NULL;
CREATE INDEX conversation_fact_by_source ON conversation_fact (source) WHERE source IS NOT NULL;
CREATE INDEX conversation_fact_by_model ON conversation_fact (model) WHERE model IS NOT NULL;
CREATE INDEX conversation_fact_by_user ON conversation_fact (started_by) WHERE started_by IS NOT NULL;

-- What the events of a conversation say of these facts.
CREATE TABLE conversation_clue (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    what         TEXT    NOT NULL,               -- workspace, model: the first that an event names; answer: a model that answered
    value        TEXT    NOT NULL,
    times        INTEGER NOT NULL,               -- how many events say so; 1 if only the first counts
    position     INTEGER NOT NULL,               -- of the last of them
    PRIMARY KEY (conversation, what, value)
) STRICT, WITHOUT ROWID;

-- Conversations whose facts have to be read again, because of an event or of what stands beside the events.
CREATE TABLE fact_stale (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key)
) STRICT;

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
        FROM archived_conversation AS a WHERE a.conversation = c.key)   AS archived_at,
       (SELECT CASE WHEN json_valid(CAST(b.content AS TEXT))
                    THEN json_extract(CAST(b.content AS TEXT), '$.user_id') END
        FROM attachment AS m
        JOIN blob AS b ON b.key = m.blob
        WHERE m.conversation = c.key AND m.path = 'meta.json')          AS user_id,
       f.workspace                                                      AS workspace,
       f.source                                                         AS source,
       f.model                                                          AS model,
       f.started_by                                                     AS started_by
FROM conversation AS c
LEFT JOIN conversation AS p ON p.key = c.parent
LEFT JOIN conversation_fact AS f ON f.conversation = c.key;
