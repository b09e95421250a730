-- What reaches the network is recognised once, when a call is projected, and not in every report. The table is derived: the
-- projection fills it again from the log. Nothing newer than SQLite 3.38 may stand here, for the reason V5 gives.
DROP VIEW tool_calls;
DROP TABLE tool_call;

-- One row a tool call, keyed by the action's position.
CREATE TABLE tool_call (
    position     INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    tool         TEXT    NOT NULL,
    outcome      TEXT    NOT NULL,               -- pending, ok, error, rejected
    result       INTEGER, -- the first event that answers it
    exit_code    INTEGER,
    risk         TEXT,                           -- UNKNOWN, LOW, MEDIUM, HIGH
    path         TEXT,                           -- the file it touches
    network      TEXT                            -- programs of its command that reach the network, or the tool that opens an address
) STRICT;

CREATE INDEX tool_call_pending ON tool_call (conversation, position) WHERE outcome = 'pending';
CREATE INDEX tool_call_by_path ON tool_call (path, position) WHERE path IS NOT NULL;
CREATE INDEX tool_call_failed ON tool_call (conversation, position) WHERE outcome = 'error';
CREATE INDEX tool_call_by_network ON tool_call (position) WHERE network IS NOT NULL;

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
       t.position IN (SELECT b.position FROM active_branches AS b)      AS is_live,
       t.network                                                        AS network
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result;
