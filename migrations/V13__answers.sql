-- More of the read contract: what auditors asked and no column told. New columns stand at the ends. Nothing newer than
-- SQLite 3.38 may stand here, for the reason V5 gives.

-- Who it was for, as the file that stands beside the events says.
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
        WHERE m.conversation = c.key AND m.path = 'meta.json')          AS user_id
FROM conversation AS c
LEFT JOIN conversation AS p ON p.key = c.parent;

-- Whether a call is on the branch that HEAD is on. The branches are walked once a statement, and only where this column
-- is asked for: nothing of the subquery depends on the row.
DROP VIEW tool_calls;
CREATE VIEW tool_calls AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       t.position                                                       AS position,
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
       r.sequence                                                       AS result_sequence,
       t.position IN (SELECT b.position FROM active_branches AS b)      AS is_live
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result;

DROP VIEW commands;
CREATE VIEW commands AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.id                                                             AS action_id,
       t.tool                                                           AS tool,
       coalesce(json_extract(a.payload, '$.action.command'),
                json_extract(a.payload, '$.args.command'),
                json_extract(a.payload, '$.raw_input.command'),
                json_extract(a.payload, '$.action.cmd'))                AS command,
       coalesce(json_extract(a.payload, '$.action.is_input'), 0)        AS is_input,
       coalesce(json_extract(r.payload, '$.observation.metadata.working_dir'),
                json_extract(r.payload, '$.extras.metadata.working_dir')) AS directory,
       t.risk                                                           AS risk,
       t.outcome                                                        AS outcome,
       t.exit_code                                                      AS exit_code,
       a.timestamp                                                      AS started_at,
       r.timestamp                                                      AS ended_at,
       CAST(round((julianday(r.timestamp) - julianday(a.timestamp)) * 86400000) AS INTEGER) AS duration_ms,
       r.sequence                                                       AS result_sequence,
       t.position IN (SELECT b.position FROM active_branches AS b)      AS is_live
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result
WHERE t.tool IN ('terminal', 'execute_bash', 'bash', 'shell', 'run', 'execute',
                 'Bash', 'PowerShell', 'shell_command', 'exec_command', 'local_shell', 'container.exec');

-- How a conversation came out, on the branch that HEAD is on. On a branch an event stands behind its parent, so the
-- last in order of sequence is the last said.
CREATE VIEW outcomes AS
SELECT f.conversation_id                                                AS conversation_id,
       f.status                                                         AS status,
       f.steps                                                          AS steps,
       CASE WHEN e.tool_name = 'finish' THEN coalesce(json_extract(e.payload, '$.action.message'), '')
            WHEN e.position IS NOT NULL
            THEN (SELECT coalesce(group_concat(json_extract(part.value, '$.text'), ''), '')
                  FROM json_each(e.payload, '$.llm_message.content') AS part) END AS final_response,
       e.sequence                                                       AS final_sequence
FROM (SELECT c.conversation_id,
             c.status,
             (SELECT count(DISTINCT nullif(s.llm_response_id, ''))
                     + count(CASE WHEN coalesce(s.llm_response_id, '') = '' THEN 1 END)
              FROM active_branches AS b
              CROSS JOIN event AS s ON s.position = b.position
              WHERE b.conversation_id = c.conversation_id
                AND (s.kind IN ('ActionEvent', 'action')
                     OR s.kind IN ('MessageEvent', 'message', 'agent_message') AND s.source = 'agent')) AS steps,
             (SELECT max(s.position)
              FROM active_branches AS b
              CROSS JOIN event AS s ON s.position = b.position
              WHERE b.conversation_id = c.conversation_id
                AND s.source = 'agent'
                AND (s.kind IN ('MessageEvent', 'message', 'agent_message')
                     OR s.kind IN ('ActionEvent', 'action') AND s.tool_name = 'finish')) AS final_position
      FROM conversations AS c) AS f
LEFT JOIN event AS e ON e.position = f.final_position;

-- A tool that shows bytes as links, such as Datasette, makes them of this.
DROP VIEW attachments;
CREATE VIEW attachments AS
SELECT c.id                                                             AS conversation_id,
       a.path                                                           AS path,
       length(b.content)                                                AS bytes,
       lower(hex(b.digest))                                             AS sha256,
       a.reason                                                         AS reason,
       b.content                                                        AS content,
       b.key                                                            AS rowid
FROM attachment AS a
JOIN blob AS b ON b.key = a.blob
JOIN conversation AS c ON c.key = a.conversation;

-- What kind of failure an error of a conversation is, where it does not say: by its code, by words of its detail, by
-- codes that wrap all sorts of errors, in the order and with the words of `src/event/classify.rs`; a test holds them
-- to each other.
DROP VIEW errors;
CREATE VIEW errors AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.timestamp                                                      AS at,
       e.kind                                                           AS kind,
       coalesce(json_extract(e.payload, '$.classification.kind'),
                CASE WHEN e.kind IN ('ConversationErrorEvent', 'conversation_error') THEN
           (SELECT CASE
                WHEN code IN ('LLMAuthenticationError', 'ACPAuthRequired') THEN 'auth'
                WHEN code IN ('LLMRateLimitError') THEN 'rate_limit'
                WHEN code IN ('MaxBudgetReached') THEN 'quota'
                WHEN code IN ('LLMBadRequestError', 'ACPInitError', 'ACPSpawnError', 'ACPPromptError',
                                'NotFoundError', 'LibTmuxException') THEN 'config'
                WHEN code IN ('LLMContextWindowExceedError', 'LLMMalformedConversationHistoryError')
                    THEN 'agent_action'
                WHEN code IN ('MaxIterationsReached', 'ConversationOwnershipLostError') THEN 'agent_action'
                WHEN code IN ('KeyError', 'AssertionError', 'PydanticSerializationError', 'AttributeError',
                                'TypeError') THEN 'internal'
                WHEN instr(told, 'invalid api key') OR instr(told, 'incorrect api key') OR
                     instr(told, 'authentication required') OR instr(told, 'invalid bearer token') OR
                     instr(told, 'invalid proxy server token') OR instr(told, 'unauthorized') OR
                     instr(told, 'error code: 401') OR instr(told, 'status": 401') OR
                     instr(told, 'token_not_found') OR instr(told, 'api key is missing')
                    THEN 'auth'
                WHEN instr(told, 'weekly usage limit') OR instr(told, 'daily quota') OR
                     instr(told, 'session usage limit') OR instr(told, 'insufficient balance') OR
                     instr(told, 'more credits') OR instr(told, 'budget has been exceeded')
                    THEN 'quota'
                WHEN instr(told, 'rate limit') OR instr(told, 'error code: 429') OR
                     instr(told, 'status": 429')
                    THEN 'rate_limit'
                WHEN instr(told, 'provider not provided') OR instr(told, 'no models loaded') OR
                     instr(told, 'does not support thinking') OR
                     instr(told, 'model is no longer available') OR instr(told, 'model not found') OR
                     instr(told, 'invalid params') OR instr(told, 'inactive_service') OR
                     instr(told, 'powershell is not available')
                    THEN 'config'
                WHEN instr(told, 'timeout') OR instr(told, 'connection error') OR
                     instr(told, 'connection closed') OR instr(told, 'service temporarily unavailable') OR
                     instr(told, 'bad gateway') OR instr(told, 'cloudflare') OR
                     instr(told, 'cannot connect') OR instr(told, 'name or service not known') OR
                     instr(told, 'error code: 5')
                    THEN 'transient'
                WHEN instr(told, 'on_token callback') OR instr(told, 'duplicate tool names') OR
                     instr(told, 'list_tools') OR instr(told, 'on_tools_changed') OR
                     instr(told, 'surrogates not allowed')
                    THEN 'internal'
                WHEN code IN ('LLMServiceUnavailableError', 'LLMTimeoutError', 'ReadTimeout',
                                'LLMNoResponseError', 'MCPTimeoutError', 'BadGatewayError', 'HTTPStatusError',
                                'RequestError', 'CloudflareError', 'OpenAIError', 'APIError',
                                'BaseLLMException', 'AnthropicError', 'OpenRouterException', 'OllamaError')
                    THEN 'transient'
                   END
            FROM (SELECT json_extract(e.payload, '$.code') AS code,
                         lower(coalesce(json_extract(e.payload, '$.detail'), '')) AS told) AS one_row) END,
                'unknown')                                              AS class,
       json_extract(e.payload, '$.code')                                AS code,
       e.tool_name                                                      AS tool,
       coalesce(json_extract(e.payload, '$.error'),
                json_extract(e.payload, '$.detail'),
                json_extract(e.payload, '$.content'))                   AS detail
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
WHERE e.kind IN ('AgentErrorEvent', 'agent_error', 'ConversationErrorEvent', 'conversation_error',
                 'ServerErrorEvent', 'observation:error')
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent')
UNION ALL
SELECT c.id,
       r.sequence,
       r.position,
       r.timestamp,
       r.kind,
       'tool',
       NULL,
       t.tool,
       coalesce(json_extract(r.payload, '$.observation.content[0].text'),
                json_extract(r.payload, '$.observation.output'),
                json_extract(r.payload, '$.observation.content'),
                json_extract(r.payload, '$.content'))
FROM tool_call AS t
JOIN conversation AS c ON c.key = t.conversation
JOIN event AS r ON r.position = t.result
WHERE t.outcome = 'error'
  AND r.kind NOT IN ('AgentErrorEvent', 'agent_error', 'observation:error');
