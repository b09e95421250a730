-- A call of a model is counted once, although several conversations have it: other programs' forks, resumes and sub-agents copy
-- records. `call` is the same in all copies. Which conversation the call belongs to is asked when it is read, so that it depends
-- on no order of imports, and is right after a deletion: one whose log does not say that it may be a copy, then the earliest, then
-- the smallest id. The table is derived: the projection fills it again from the log.
DROP VIEW usage;
DROP TABLE usage_entry;

CREATE TABLE usage_entry (
    conversation        INTEGER NOT NULL REFERENCES conversation (key),
    usage_id            TEXT    NOT NULL,        -- what the model was used for
    model               TEXT    NOT NULL,
    response_id         TEXT,                    -- the reply, where it is known
    call                TEXT,                    -- the call, the same in every copy; NULL: it is not copied
    is_copy             INTEGER NOT NULL,        -- 1: the log says that it may be one, of a fork or in a sub-agent's history
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
CREATE INDEX usage_entry_by_call ON usage_entry (call, conversation) WHERE call IS NOT NULL;

CREATE VIEW usage_copies AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       u.usage_id                                                       AS usage_id,
       u.model                                                          AS model,
       u.response_id                                                    AS response_id,
       CAST(CASE WHEN u.at IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%S', u.at / 1000000, 'unixepoch')
                 || printf('.%06dZ', u.at % 1000000) END AS TEXT)       AS at,
       u.prompt_tokens                                                  AS prompt_tokens,
       u.completion_tokens                                              AS completion_tokens,
       w.id                                                             AS owner_id
FROM usage_entry AS u
JOIN conversation AS c ON c.key = u.conversation
JOIN conversation AS w ON w.key = (SELECT o.conversation
                                   FROM usage_entry AS o
                                   JOIN conversation AS d ON d.key = o.conversation
                                   WHERE o.call = u.call
                                   ORDER BY o.is_copy, o.at IS NULL, o.at, d.id
                                   LIMIT 1)
LEFT JOIN event AS e ON e.position = u.position
WHERE u.call IS NOT NULL
  AND EXISTS (SELECT 1 FROM usage_entry AS s WHERE s.call = u.call AND s.conversation <> u.conversation)
  AND w.key <> u.conversation;

CREATE VIEW usage AS
SELECT c.id                                                             AS conversation_id,
       u.usage_id                                                       AS usage_id,
       u.model                                                          AS model,
       u.response_id                                                    AS response_id,
       e.sequence                                                       AS sequence,
       CAST(CASE WHEN u.at IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%S', u.at / 1000000, 'unixepoch')
                 || printf('.%06dZ', u.at % 1000000) END AS TEXT)       AS at,
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
LEFT JOIN event AS e ON e.position = u.position
WHERE u.call IS NULL
   OR NOT EXISTS (SELECT 1 FROM usage_entry AS s WHERE s.call = u.call AND s.conversation <> u.conversation)
   OR u.conversation = (SELECT o.conversation
                        FROM usage_entry AS o
                        JOIN conversation AS d ON d.key = o.conversation
                        WHERE o.call = u.call
                        ORDER BY o.is_copy, o.at IS NULL, o.at, d.id
                        LIMIT 1);
