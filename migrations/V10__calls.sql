-- A call stands in the conversation of its event: asked by conversation, the engine finds events in their order by
-- event's own index and looks for their calls, where it went through every event of the file before.
DROP VIEW tool_calls;
DROP VIEW commands;

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
       r.sequence                                                       AS result_sequence
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result;

CREATE VIEW commands AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       t.position                                                       AS position,
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
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result
WHERE t.tool IN ('terminal', 'execute_bash', 'bash', 'shell', 'run', 'execute');

-- For the view errors: calls that failed, of one conversation or of all, without looking at the others.
CREATE INDEX tool_call_failed ON tool_call (conversation, position) WHERE outcome = 'error';
