-- A cost that the log does not say is NULL, and an estimate from the price table is kept apart. The table is derived:
-- the projection fills it again from the log. Nothing newer than SQLite 3.38 may stand here, for the reason V5 gives.
DROP VIEW usage;
DROP TABLE usage_entry;

CREATE TABLE usage_entry (
    conversation        INTEGER NOT NULL REFERENCES conversation (key),
    usage_id            TEXT    NOT NULL,        -- what the model was used for
    model               TEXT    NOT NULL,
    response_id         TEXT,                    -- the call, where it is known
    position            INTEGER,                 -- the event that told it; NULL: the base state
    at                  INTEGER,                 -- microseconds since 1970 UTC, where it is known
    prompt_tokens       INTEGER NOT NULL,
    completion_tokens   INTEGER NOT NULL,
    cache_read_tokens   INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    reasoning_tokens    INTEGER NOT NULL,
    cost                REAL,                    -- in the price table's currency, US dollars as a rule; NULL: the log does not say it
    estimated_cost      REAL,                    -- from the price table; only where the cost is unknown
    tokens_without_cost INTEGER NOT NULL,        -- sent and received; their cost is neither known, here or in another row, nor estimated
    latency             REAL                     -- seconds
) STRICT;

CREATE INDEX usage_entry_by_conversation ON usage_entry (conversation, usage_id);

CREATE VIEW usage AS
SELECT c.id                                                             AS conversation_id,
       u.usage_id                                                       AS usage_id,
       u.model                                                          AS model,
       u.response_id                                                    AS response_id,
       e.sequence                                                       AS sequence,
       CASE WHEN u.at IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%S', u.at / 1000000, 'unixepoch')
                 || printf('.%06dZ', u.at % 1000000) END                AS at,
       u.prompt_tokens                                                  AS prompt_tokens,
       u.completion_tokens                                              AS completion_tokens,
       u.cache_read_tokens                                              AS cache_read_tokens,
       u.cache_write_tokens                                             AS cache_write_tokens,
       u.reasoning_tokens                                               AS reasoning_tokens,
       u.cost                                                           AS cost,
       u.latency                                                        AS latency_seconds,
       u.estimated_cost                                                 AS estimated_cost,
       u.tokens_without_cost                                            AS tokens_without_cost
FROM usage_entry AS u
JOIN conversation AS c ON c.key = u.conversation
LEFT JOIN event AS e ON e.position = u.position;
