-- The read contract: names and columns that stay, for any SQLite tool from 3.38 on. docs/format.md
-- explains them. Nothing newer may stand here: one view that an old sqlite3 shell cannot parse would keep
-- it from opening the file at all.

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
       lower(hex(c.head_hash))                                          AS head_hash
FROM conversation AS c
LEFT JOIN conversation AS p ON p.key = c.parent;

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
       length(CAST(e.payload AS BLOB))                                 AS payload_bytes,
       e.payload                                                        AS payload
FROM event AS e
JOIN conversation AS c ON c.key = e.conversation;

CREATE VIEW transcript AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.id                                                             AS event_id,
       e.timestamp                                                      AS timestamp,
       e.kind                                                           AS kind,
       t.role                                                           AS role,
       e.tool_name                                                      AS tool,
       (SELECT coalesce(group_concat(part, char(10)), '')
        FROM (SELECT json_extract(CAST(substr(CAST(e.payload AS BLOB), start.value + 1, bytes.value) AS TEXT), '$')
                         AS part
              FROM json_each(t.parts) AS start
              JOIN json_each(t.parts) AS bytes ON bytes.key = start.key + 1
              WHERE start.key % 2 = 0
              ORDER BY start.key))                                      AS text
FROM transcript_line AS t
JOIN event AS e ON e.position = t.position
JOIN conversation AS c ON c.key = e.conversation;

CREATE VIEW tool_calls AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.id                                                             AS action_id,
       t.tool                                                           AS tool,
       a.tool_call_id                                                   AS tool_call_id,
       a.llm_response_id                                                AS llm_response_id,
       coalesce(json_extract(a.payload, '$.action.command'),
                json_extract(a.payload, '$.args.command'))              AS command,
       t.path                                                           AS path,
       coalesce(json_extract(a.payload, '$.action'),
                json_extract(a.payload, '$.args'),
                json_extract(a.payload, '$.tool_call.arguments'))       AS arguments,
       t.risk                                                           AS risk,
       t.outcome                                                        AS outcome,
       t.exit_code                                                      AS exit_code,
       CASE WHEN t.outcome = 'rejected'
            THEN coalesce(json_extract(r.payload, '$.rejection_source'), 'user') END AS rejected_by,
       CASE WHEN t.outcome = 'rejected'
            THEN json_extract(r.payload, '$.rejection_reason') END      AS rejection_reason,
       CASE WHEN r.kind IN ('AgentErrorEvent', 'agent_error')
            THEN json_extract(r.payload, '$.error') END                 AS error,
       a.timestamp                                                      AS started_at,
       r.timestamp                                                      AS ended_at,
       CAST(round((julianday(r.timestamp) - julianday(a.timestamp)) * 86400000) AS INTEGER) AS duration_ms,
       r.id                                                             AS result_id,
       r.sequence                                                       AS result_sequence
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = t.conversation
LEFT JOIN event AS r ON r.position = t.result;

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
       u.latency                                                        AS latency_seconds
FROM usage_entry AS u
JOIN conversation AS c ON c.key = u.conversation
LEFT JOIN event AS e ON e.position = u.position;

CREATE VIEW tasks AS
SELECT c.id                                                             AS conversation_id,
       t.place                                                          AS place,
       t.title                                                          AS title,
       t.notes                                                          AS notes,
       t.status                                                         AS status,
       e.sequence                                                       AS sequence
FROM task AS t
JOIN conversation AS c ON c.key = t.conversation
LEFT JOIN event AS e ON e.position = t.position;

CREATE VIEW base_states AS
SELECT c.id                                                             AS conversation_id,
       b.version                                                        AS version,
       b.document_version                                               AS document_version,
       b.document                                                       AS document
FROM base_state AS b
JOIN conversation AS c ON c.key = b.conversation;

CREATE VIEW base_state_changes AS
SELECT c.id                                                             AS conversation_id,
       b.version                                                        AS version,
       b.sequence                                                       AS after_sequence,
       b.field                                                          AS field,
       b.value                                                          AS value,
       strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000)                 AS recorded_at
FROM base_state_change AS b
JOIN conversation AS c ON c.key = b.conversation;

CREATE VIEW attachments AS
SELECT c.id                                                             AS conversation_id,
       a.path                                                           AS path,
       length(b.content)                                                AS bytes,
       lower(hex(b.digest))                                             AS sha256,
       a.reason                                                         AS reason,
       b.content                                                        AS content
FROM attachment AS a
JOIN blob AS b ON b.key = a.blob
JOIN conversation AS c ON c.key = a.conversation;

CREATE VIEW problems AS
SELECT c.id                                                             AS conversation_id,
       p.path                                                           AS path,
       p.problem                                                        AS problem,
       p.action                                                         AS action,
       strftime('%Y-%m-%dT%H:%M:%S', p.found_at / 1000000, 'unixepoch')
           || printf('.%06dZ', p.found_at % 1000000)                    AS found_at
FROM problem AS p
JOIN conversation AS c ON c.key = p.conversation;
