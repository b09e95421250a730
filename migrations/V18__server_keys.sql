-- Keys of a server that have a name and a role. The key itself is in no file: a row has its SHA-256.

-- One row a key. A revoked key keeps its row: a server without a key that can be used is not open to everyone again.
CREATE TABLE server_key (
    number     INTEGER PRIMARY KEY CHECK (number > 0), -- 1, 2, 3, …
    name       TEXT    NOT NULL CHECK (length(name) > 0), -- of a person or a program; a key that is in use has it alone
    role       TEXT    NOT NULL CHECK (role IN ('read', 'approve', 'write', 'admin')),
    digest     BLOB    NOT NULL CHECK (length(digest) = 32), -- SHA-256 of the key
    made_at    INTEGER NOT NULL,                 -- microseconds since 1970 UTC, this machine's clock
    revoked_at INTEGER                           -- likewise; NULL: it may be used
) STRICT;

CREATE TRIGGER server_key_insert_guard BEFORE INSERT ON server_key
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the keys of servers');
END;

CREATE TRIGGER server_key_update_guard BEFORE UPDATE ON server_key
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(ABORT, 'annals: only annals writes the keys of servers');
END;

CREATE TRIGGER server_key_delete_guard BEFORE DELETE ON server_key
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(ABORT, 'annals: only annals writes the keys of servers');
END;

-- Who decided, as the change of the status says that ended the wait. Nothing newer than SQLite 3.38 may stand here, for
-- the reason V5 gives.
DROP VIEW confirmations;

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
    SELECT position, why, after_sequence, asked_at, next_status, next_at, min(why * 1000000000000 + after_sequence)
    FROM asked
    GROUP BY position
),
judged AS (
    SELECT c.id AS conversation_id, a.sequence, a.position, a.id AS action_id, t.tool, t.risk,
           f.why, f.after_sequence, f.asked_at, f.next_at, r.timestamp AS result_at, r.sequence AS result_sequence,
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
       result_sequence,
       CASE WHEN why = 1 AND decision IN ('granted', 'denied') THEN
           (SELECT b.actor
            FROM base_state_change AS b
            WHERE b.conversation = (SELECT c.key FROM conversation AS c WHERE c.id = decided.conversation_id)
              AND b.field = 'execution_status'
              AND b.sequence >= decided.after_sequence
              AND b.version > (SELECT min(w.version)
                               FROM base_state_change AS w
                               WHERE w.conversation = b.conversation
                                 AND w.field = 'execution_status'
                                 AND w.sequence >= decided.after_sequence
                                 AND w.value = '"waiting_for_confirmation"')
            ORDER BY b.version
            LIMIT 1) END                                                 AS decided_by
FROM decided;
