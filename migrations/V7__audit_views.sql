-- More of the read contract: what an auditor asks about that no view showed yet. Nothing newer than SQLite
-- 3.38 may stand here, for the reason V5 gives. Most of these read events of rare kinds: they go through the
-- conversations, so that event_by_rare_kind finds them; its condition has to be repeated for that.

CREATE VIEW commands AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.id                                                             AS action_id,
       t.tool                                                           AS tool,
       coalesce(json_extract(a.payload, '$.action.command'),
                json_extract(a.payload, '$.args.command'),
                json_extract(a.payload, '$.raw_input.command'))         AS command,
       coalesce(json_extract(a.payload, '$.action.is_input'), 0)        AS is_input,
       coalesce(json_extract(r.payload, '$.observation.metadata.working_dir'),
                json_extract(r.payload, '$.extras.metadata.working_dir')) AS directory,
       t.risk                                                           AS risk,
       t.outcome                                                        AS outcome,
       t.exit_code                                                      AS exit_code,
       a.timestamp                                                      AS started_at,
       r.timestamp                                                      AS ended_at,
       CAST(round((julianday(r.timestamp) - julianday(a.timestamp)) * 86400000) AS INTEGER) AS duration_ms,
       r.sequence                                                       AS result_sequence
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = t.conversation
LEFT JOIN event AS r ON r.position = t.result
WHERE t.tool IN ('terminal', 'execute_bash', 'bash', 'shell', 'run', 'execute');

CREATE VIEW status_changes AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS after_sequence,
       json_extract(e.payload, '$.value')                               AS status,
       e.timestamp                                                      AS at,
       'event'                                                          AS told_by,
       strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', e.recorded_at % 1000000)                 AS recorded_at
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
WHERE e.kind IN ('ConversationStateUpdateEvent', 'conversation_state_update', 'state_update')
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent')
  AND json_extract(e.payload, '$.key') = 'execution_status'
UNION ALL
SELECT c.id,
       b.sequence,
       json_extract(b.value, '$'),
       strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000),
       'base state',
       strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000)
FROM conversation AS c
JOIN base_state_change AS b ON b.conversation = c.key
WHERE b.field = 'execution_status';

CREATE VIEW security_analyses AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS analysis_sequence,
       e.timestamp                                                      AS at,
       json_extract(e.payload, '$.analyzer')                            AS analyzer,
       json_extract(e.payload, '$.policy')                              AS policy,
       risk.key                                                         AS action_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.tool_name                                                      AS tool,
       risk.value                                                       AS risk,
       (SELECT detail.value FROM json_each(e.payload, '$.details') AS detail
        WHERE detail.key = risk.key)                                    AS details
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
JOIN json_each(e.payload, '$.risks') AS risk
LEFT JOIN event AS a ON a.conversation = c.key AND a.id = risk.key
WHERE e.kind = 'SecurityAnalysisEvent'
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent');

-- Why a call is known to have waited for a person: 1 the status said so, 2 the policy did not let it pass
-- otherwise, 3 a person refused it. The calls of a wait are those that were unanswered then, among the 200
-- events before it.
CREATE VIEW confirmations AS
WITH stood AS (
    SELECT conversation_id, after_sequence, status, at,
           lead(status) OVER later AS next_status, lead(at) OVER later AS next_at
    FROM status_changes
    WINDOW later AS (PARTITION BY conversation_id ORDER BY after_sequence)
),
asked (position, why, after_sequence, asked_at, next_status, next_at) AS (
    SELECT t.position, 1, s.after_sequence, s.at, s.next_status, s.next_at
    FROM stood AS s
    JOIN conversation AS c ON c.id = s.conversation_id
    JOIN event AS a ON a.conversation = c.key AND a.sequence BETWEEN s.after_sequence - 200 AND s.after_sequence
    JOIN tool_call AS t ON t.position = a.position
    LEFT JOIN event AS r ON r.position = t.result
    WHERE s.status = 'waiting_for_confirmation' AND (r.sequence IS NULL OR r.sequence > s.after_sequence)
    UNION ALL
    SELECT s.position, 2, s.analysis_sequence, s.at, NULL, NULL
    FROM security_analyses AS s
    JOIN conversation AS c ON c.id = s.conversation_id
    JOIN event AS e ON e.conversation = c.key AND e.sequence = s.analysis_sequence
    WHERE (s.policy = 'AlwaysConfirm'
           OR s.policy = 'ConfirmRisky'
              AND EXISTS (SELECT 1 FROM json_each(e.payload, '$.risks') AS risk WHERE risk.value = 'HIGH'))
      AND NOT (s.tool IN ('finish', 'think')
               AND (SELECT count(*) FROM json_each(e.payload, '$.risks')) = 1)
    UNION ALL
    SELECT t.position, 3, a.sequence, a.timestamp, NULL, NULL
    FROM tool_call AS t
    JOIN event AS a ON a.position = t.position
    JOIN event AS r ON r.position = t.result
    WHERE t.outcome = 'rejected' AND coalesce(json_extract(r.payload, '$.rejection_source'), 'user') = 'user'
),
earliest AS (
    -- SQLite takes the other columns from the row of the minimum.
    SELECT position, why, asked_at, next_status, next_at, min(why * 1000000000000 + after_sequence)
    FROM asked
    GROUP BY position
),
judged AS (
    SELECT c.id AS conversation_id, a.sequence, a.position, a.id AS action_id, t.tool, t.risk,
           f.why, f.asked_at, f.next_at, r.timestamp AS result_at, r.sequence AS result_sequence,
           r.payload AS result,
           CASE WHEN t.outcome = 'rejected'
                     AND coalesce(json_extract(r.payload, '$.rejection_source'), 'user') = 'user' THEN 'denied'
                WHEN f.why = 1 AND r.kind IN ('AgentErrorEvent', 'agent_error')
                     AND coalesce(f.next_status, '') <> 'running' THEN 'lapsed'
                WHEN r.position IS NOT NULL OR f.next_status = 'running' THEN 'granted'
                ELSE 'waiting' END AS decision
    FROM earliest AS f
    JOIN tool_call AS t ON t.position = f.position
    JOIN event AS a ON a.position = t.position
    JOIN conversation AS c ON c.key = t.conversation
    LEFT JOIN event AS r ON r.position = t.result
),
decided AS (
    SELECT judged.*,
           CASE decision WHEN 'granted' THEN coalesce(next_at, result_at)
                         WHEN 'waiting' THEN NULL
                         ELSE result_at END AS decided_at
    FROM judged
)
SELECT conversation_id,
       sequence,
       position,
       action_id,
       tool,
       risk,
       CASE why WHEN 1 THEN 'status' WHEN 2 THEN 'policy' ELSE 'refusal' END AS evidence,
       asked_at,
       decision,
       decided_at,
       CAST(round((julianday(decided_at) - julianday(asked_at)) * 86400000) AS INTEGER) AS waited_ms,
       CASE decision WHEN 'denied' THEN json_extract(result, '$.rejection_reason') END AS reason,
       result_sequence
FROM decided;

CREATE VIEW hooks AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.timestamp                                                      AS at,
       json_extract(e.payload, '$.hook_event_type')                     AS hook_event,
       json_extract(e.payload, '$.hook_command')                        AS hook_command,
       e.tool_name                                                      AS tool,
       e.action_id                                                      AS action_id,
       json_extract(e.payload, '$.message_id')                          AS message_id,
       json_extract(e.payload, '$.success')                             AS success,
       coalesce(json_extract(e.payload, '$.blocked'), 0)                AS blocked,
       json_extract(e.payload, '$.exit_code')                           AS exit_code,
       json_extract(e.payload, '$.reason')                              AS reason,
       json_extract(e.payload, '$.error')                               AS error
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
WHERE e.kind IN ('HookExecutionEvent', 'hook_execution')
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent');

CREATE VIEW errors AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.timestamp                                                      AS at,
       e.kind                                                           AS kind,
       coalesce(json_extract(e.payload, '$.classification.kind'), 'unknown') AS class,
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

CREATE VIEW secrets AS
SELECT c.id                                                             AS conversation_id,
       source.key                                                       AS name,
       CASE WHEN source.type = 'object' THEN json_extract(source.value, '$.kind') END AS kind,
       CASE WHEN source.type = 'object' THEN json_extract(source.value, '$.description') END AS description
FROM base_state AS b
JOIN conversation AS c ON c.key = b.conversation
JOIN json_each(coalesce((SELECT change.value FROM base_state_change AS change
                         WHERE change.conversation = b.conversation AND change.field = 'secret_registry'
                           AND change.version > b.document_version
                         ORDER BY change.version DESC LIMIT 1),
                        json_extract(b.document, '$.secret_registry')),
               '$.secret_sources') AS source;

CREATE VIEW head_moves AS
SELECT c.id                                                             AS conversation_id,
       h.sequence                                                       AS after_sequence,
       h.leaf_event_id                                                  AS leaf_event_id,
       strftime('%Y-%m-%dT%H:%M:%S', h.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', h.recorded_at % 1000000)                 AS recorded_at
FROM head_change AS h
JOIN conversation AS c ON c.key = h.conversation;

CREATE VIEW imports AS
SELECT c.id                                                             AS conversation_id,
       o.source                                                         AS source,
       o.events                                                         AS events,
       strftime('%Y-%m-%dT%H:%M:%S', o.imported_at / 1000000, 'unixepoch')
           || printf('.%06dZ', o.imported_at % 1000000)                 AS imported_at
FROM origin AS o
JOIN conversation AS c ON c.key = o.conversation;
