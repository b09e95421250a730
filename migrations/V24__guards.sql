-- Every table that cannot be computed from the log is guarded as the log is; the receipts of what is erased can go; and
-- every column of a view has a type. Nothing newer than SQLite 3.38 may stand in a view, for the reason V5 gives.

-- Another program cannot write these tables: it has not the function that the guards ask for. Annals has it on every
-- connection that writes, and switches the file's triggers off before it appends, so these guards cost it nothing.
-- Insert guards also stop INSERT OR REPLACE, which walks around the others.
CREATE TRIGGER log_insert_guard BEFORE INSERT ON log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes what the file is');
END;

CREATE TRIGGER log_update_guard BEFORE UPDATE ON log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes what the file is');
END;

CREATE TRIGGER log_delete_guard BEFORE DELETE ON log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes what the file is');
END;

CREATE TRIGGER conversation_insert_guard BEFORE INSERT ON conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the catalogue');
END;

CREATE TRIGGER conversation_update_guard BEFORE UPDATE ON conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the catalogue');
END;

CREATE TRIGGER conversation_delete_guard BEFORE DELETE ON conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the catalogue');
END;

CREATE TRIGGER maintenance_insert_guard BEFORE INSERT ON maintenance
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes permissions');
END;

CREATE TRIGGER maintenance_update_guard BEFORE UPDATE ON maintenance
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes permissions');
END;

CREATE TRIGGER maintenance_delete_guard BEFORE DELETE ON maintenance
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes permissions');
END;

CREATE TRIGGER base_state_insert_guard BEFORE INSERT ON base_state
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes base states');
END;

CREATE TRIGGER base_state_update_guard BEFORE UPDATE ON base_state
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes base states');
END;

CREATE TRIGGER base_state_delete_guard BEFORE DELETE ON base_state
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes base states');
END;

CREATE TRIGGER base_state_change_insert_guard BEFORE INSERT ON base_state_change
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes base states');
END;

CREATE TRIGGER head_change_insert_guard BEFORE INSERT ON head_change
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes moves of HEAD');
END;

CREATE TRIGGER head_change_update_guard BEFORE UPDATE ON head_change
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes moves of HEAD');
END;

CREATE TRIGGER head_change_delete_guard BEFORE DELETE ON head_change
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes moves of HEAD');
END;

CREATE TRIGGER origin_insert_guard BEFORE INSERT ON origin
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes origins');
END;

CREATE TRIGGER origin_update_guard BEFORE UPDATE ON origin
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes origins');
END;

CREATE TRIGGER origin_delete_guard BEFORE DELETE ON origin
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes origins');
END;

CREATE TRIGGER event_file_insert_guard BEFORE INSERT ON event_file
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes names of files');
END;

CREATE TRIGGER event_file_update_guard BEFORE UPDATE ON event_file
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes names of files');
END;

CREATE TRIGGER event_file_delete_guard BEFORE DELETE ON event_file
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes names of files');
END;

CREATE TRIGGER blob_insert_guard BEFORE INSERT ON blob
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER blob_update_guard BEFORE UPDATE ON blob
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER blob_delete_guard BEFORE DELETE ON blob
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER attachment_insert_guard BEFORE INSERT ON attachment
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER attachment_update_guard BEFORE UPDATE ON attachment
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER attachment_delete_guard BEFORE DELETE ON attachment
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes attachments');
END;

CREATE TRIGGER problem_insert_guard BEFORE INSERT ON problem
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes problems of imports');
END;

CREATE TRIGGER problem_update_guard BEFORE UPDATE ON problem
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes problems of imports');
END;

CREATE TRIGGER problem_delete_guard BEFORE DELETE ON problem
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes problems of imports');
END;

CREATE TRIGGER archive_dictionary_insert_guard BEFORE INSERT ON archive_dictionary
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archive_dictionary_update_guard BEFORE UPDATE ON archive_dictionary
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archive_dictionary_delete_guard BEFORE DELETE ON archive_dictionary
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archive_source_insert_guard BEFORE INSERT ON archive_source
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archive_source_update_guard BEFORE UPDATE ON archive_source
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archive_source_delete_guard BEFORE DELETE ON archive_source
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_conversation_insert_guard BEFORE INSERT ON archived_conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_conversation_update_guard BEFORE UPDATE ON archived_conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_conversation_delete_guard BEFORE DELETE ON archived_conversation
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_payload_insert_guard BEFORE INSERT ON archived_payload
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_payload_update_guard BEFORE UPDATE ON archived_payload
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER archived_payload_delete_guard BEFORE DELETE ON archived_payload
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes archives');
END;

CREATE TRIGGER arrival_insert_guard BEFORE INSERT ON arrival
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes arrivals');
END;

CREATE TRIGGER arrival_update_guard BEFORE UPDATE ON arrival
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes arrivals');
END;

CREATE TRIGGER arrival_delete_guard BEFORE DELETE ON arrival
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes arrivals');
END;

CREATE TRIGGER repair_insert_guard BEFORE INSERT ON repair
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes receipts');
END;

CREATE TRIGGER subscription_insert_guard BEFORE INSERT ON subscription
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes subscriptions');
END;

CREATE TRIGGER subscription_update_guard BEFORE UPDATE ON subscription
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes subscriptions');
END;

CREATE TRIGGER subscription_delete_guard BEFORE DELETE ON subscription
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes subscriptions');
END;

CREATE TRIGGER host_table_insert_guard BEFORE INSERT ON host_table
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER host_table_update_guard BEFORE UPDATE ON host_table
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER host_table_delete_guard BEFORE DELETE ON host_table
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER host_stale_insert_guard BEFORE INSERT ON host_stale
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER host_stale_update_guard BEFORE UPDATE ON host_stale
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER host_stale_delete_guard BEFORE DELETE ON host_stale
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the tables of hosts');
END;

CREATE TRIGGER replica_insert_guard BEFORE INSERT ON replica
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the place in a shared log');
END;

CREATE TRIGGER replica_update_guard BEFORE UPDATE ON replica
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the place in a shared log');
END;

CREATE TRIGGER replica_delete_guard BEFORE DELETE ON replica
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the place in a shared log');
END;

CREATE TRIGGER refinery_schema_history_insert_guard BEFORE INSERT ON refinery_schema_history
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the history of the schema');
END;

CREATE TRIGGER refinery_schema_history_update_guard BEFORE UPDATE ON refinery_schema_history
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the history of the schema');
END;

CREATE TRIGGER refinery_schema_history_delete_guard BEFORE DELETE ON refinery_schema_history
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals writes the history of the schema');
END;

-- Receipts of a conversation go when it is erased, because a digest confirms a guess. Their act keeps its place in the
-- chain: `receipts_digest` is what its hash was made over, and without the salt, which goes as well, it confirms nothing.
ALTER TABLE admin_act ADD COLUMN salt BLOB CHECK (length(salt) = 32); -- random, hashed in front of the receipts; NULL: it has none to hide
ALTER TABLE admin_act ADD COLUMN receipts_digest BLOB CHECK (length(receipts_digest) = 32); -- NULL: the receipts are there

DROP TRIGGER admin_act_update_guard;
CREATE TRIGGER admin_act_update_guard BEFORE UPDATE ON admin_act
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

DROP TRIGGER admin_act_delete_guard;
CREATE TRIGGER admin_act_delete_guard BEFORE DELETE ON admin_act
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

DROP TRIGGER admin_receipt_delete_guard;
CREATE TRIGGER admin_receipt_delete_guard BEFORE DELETE ON admin_receipt
WHEN NOT EXISTS (SELECT 1 FROM maintenance)
BEGIN
    SELECT RAISE(ABORT, 'annals: the administrative log is append-only');
END;

-- The index reads its text from the view `transcript`, so that tools that search it show what they found. It stores as
-- much as before, and what is stored stays as it is: only the statement changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = 'CREATE VIRTUAL TABLE transcript_search USING fts5 (
    text,
    content = ''transcript'',
    content_rowid = ''position'',
    tokenize = "unicode61 remove_diacritics 2"
)' WHERE name = 'transcript_search' AND type = 'table';
PRAGMA writable_schema = RESET;

-- Its projection makes it again.
DROP VIEW IF EXISTS state_snapshots;

-- The views with a type for every column that is computed; what they say is the same.

DROP VIEW problems;
CREATE VIEW problems AS
SELECT c.id                                                             AS conversation_id,
       p.path                                                           AS path,
       p.problem                                                        AS problem,
       p.action                                                         AS action,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', p.found_at / 1000000, 'unixepoch')
           || printf('.%06dZ', p.found_at % 1000000) AS TEXT)           AS found_at
FROM problem AS p
JOIN conversation AS c ON c.key = p.conversation;

DROP VIEW branches;
CREATE VIEW branches AS
SELECT leaf.conversation_id                                             AS conversation_id,
       leaf.event_id                                                    AS leaf_event_id,
       CAST(step.key AS INTEGER)                                        AS steps_to_leaf,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.event_id                                                       AS event_id,
       e.kind                                                           AS kind
FROM events AS leaf
CROSS JOIN json_each((
    WITH RECURSIVE way (sequence) AS (
        SELECT leaf.sequence
        UNION
        SELECT CASE WHEN f.parent_id IS NULL THEN f.sequence - 1
                    WHEN f.parent_id <> '__root__'
                    THEN (SELECT p.sequence FROM events AS p
                          WHERE p.conversation_id = f.conversation_id AND p.event_id = f.parent_id) END
        FROM way JOIN events AS f ON f.conversation_id = leaf.conversation_id AND f.sequence = way.sequence
    )
    SELECT json_group_array(sequence) FROM way
)) AS step
CROSS JOIN events AS e ON e.conversation_id = leaf.conversation_id AND e.sequence = step.value;

DROP VIEW active_branches;
CREATE VIEW active_branches AS
SELECT c.conversation_id                                                AS conversation_id,
       CAST(step.key AS INTEGER)                                        AS steps_to_leaf,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.event_id                                                       AS event_id,
       e.kind                                                           AS kind
FROM conversations AS c
CROSS JOIN json_each((
    WITH RECURSIVE way (sequence) AS (
        SELECT CASE WHEN c.leaf_event_id IS NOT NULL
                    THEN (SELECT leaf.sequence FROM events AS leaf
                          WHERE leaf.conversation_id = c.conversation_id AND leaf.event_id = c.leaf_event_id)
                    WHEN NOT c.head_is_empty
                    THEN (SELECT last.sequence FROM events AS last
                          WHERE last.conversation_id = c.conversation_id
                            AND last.kind NOT IN ('ConversationStateUpdateEvent', 'conversation_state_update',
                                                  'state_update', 'ConversationErrorEvent', 'conversation_error')
                          ORDER BY last.sequence DESC LIMIT 1) END
        UNION
        SELECT CASE WHEN f.parent_id IS NULL THEN f.sequence - 1
                    WHEN f.parent_id <> '__root__'
                    THEN (SELECT p.sequence FROM events AS p
                          WHERE p.conversation_id = f.conversation_id AND p.event_id = f.parent_id) END
        FROM way JOIN events AS f ON f.conversation_id = c.conversation_id AND f.sequence = way.sequence
    )
    SELECT json_group_array(sequence) FROM way
)) AS step
CROSS JOIN events AS e ON e.conversation_id = c.conversation_id AND e.sequence = step.value;

DROP VIEW status_changes;
CREATE VIEW status_changes AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS after_sequence,
       CAST(json_extract(e.payload, '$.value') AS TEXT)                 AS status,
       e.timestamp                                                      AS at,
       CAST('event' AS TEXT)                                            AS told_by,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', e.recorded_at % 1000000) AS TEXT)        AS recorded_at
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
WHERE e.kind IN ('ConversationStateUpdateEvent', 'conversation_state_update', 'state_update')
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent')
  AND json_extract(e.payload, '$.key') = 'execution_status'
UNION ALL
SELECT c.id,
       b.sequence,
       CAST(json_extract(b.value, '$') AS TEXT),
       strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000),
       CAST('base state' AS TEXT),
       CAST(strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000) AS TEXT)
FROM conversation AS c
JOIN base_state_change AS b ON b.conversation = c.key
WHERE b.field = 'execution_status';

DROP VIEW security_analyses;
CREATE VIEW security_analyses AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS analysis_sequence,
       e.timestamp                                                      AS at,
       CAST(json_extract(e.payload, '$.analyzer') AS TEXT)              AS analyzer,
       CAST(json_extract(e.payload, '$.policy') AS TEXT)                AS policy,
       CAST(risk.key AS TEXT)                                           AS action_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.tool_name                                                      AS tool,
       CAST(risk.value AS TEXT)                                         AS risk,
       CAST((SELECT detail.value FROM json_each(e.payload, '$.details') AS detail
        WHERE detail.key = risk.key) AS TEXT)                           AS details
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
JOIN json_each(e.payload, '$.risks') AS risk
LEFT JOIN event AS a ON a.conversation = c.key AND a.id = risk.key
WHERE e.kind = 'SecurityAnalysisEvent'
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent');

DROP VIEW hooks;
CREATE VIEW hooks AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.timestamp                                                      AS at,
       CAST(json_extract(e.payload, '$.hook_event_type') AS TEXT)       AS hook_event,
       CAST(json_extract(e.payload, '$.hook_command') AS TEXT)          AS hook_command,
       e.tool_name                                                      AS tool,
       e.action_id                                                      AS action_id,
       CAST(json_extract(e.payload, '$.message_id') AS TEXT)            AS message_id,
       CAST(json_extract(e.payload, '$.success') AS INTEGER)            AS success,
       CAST(coalesce(json_extract(e.payload, '$.blocked'), 0) AS INTEGER) AS blocked,
       CAST(CASE json_type(e.payload, '$.exit_code') WHEN 'integer' THEN json_extract(e.payload, '$.exit_code') END AS INTEGER) AS exit_code,
       CAST(json_extract(e.payload, '$.reason') AS TEXT)                AS reason,
       CAST(json_extract(e.payload, '$.error') AS TEXT)                 AS error
FROM conversation AS c
JOIN event AS e ON e.conversation = c.key
WHERE e.kind IN ('HookExecutionEvent', 'hook_execution')
  AND e.kind NOT IN ('ActionEvent', 'ObservationEvent');

DROP VIEW secrets;
CREATE VIEW secrets AS
SELECT c.id                                                             AS conversation_id,
       CAST(source.key AS TEXT)                                         AS name,
       CAST(CASE WHEN source.type = 'object' THEN json_extract(source.value, '$.kind') END AS TEXT) AS kind,
       CAST(CASE WHEN source.type = 'object' THEN json_extract(source.value, '$.description') END AS TEXT) AS description
FROM base_state AS b
JOIN conversation AS c ON c.key = b.conversation
JOIN json_each(coalesce((SELECT change.value FROM base_state_change AS change
                         WHERE change.conversation = b.conversation AND change.field = 'secret_registry'
                           AND change.version > b.document_version
                         ORDER BY change.version DESC LIMIT 1),
                        json_extract(b.document, '$.secret_registry')),
               '$.secret_sources') AS source;

DROP VIEW head_moves;
CREATE VIEW head_moves AS
SELECT c.id                                                             AS conversation_id,
       h.sequence                                                       AS after_sequence,
       h.leaf_event_id                                                  AS leaf_event_id,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', h.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', h.recorded_at % 1000000) AS TEXT)        AS recorded_at
FROM head_change AS h
JOIN conversation AS c ON c.key = h.conversation;

DROP VIEW admin_log;
CREATE VIEW admin_log AS
SELECT a.number                                                         AS number,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch')
           || printf('.%06dZ', a.at % 1000000) AS TEXT)                 AS at,
       a.act                                                            AS act,
       a.conversation                                                   AS conversation_id,
       a.reason                                                         AS reason,
       a.os_user                                                        AS os_user,
       a.host                                                           AS host,
       a.program                                                        AS program,
       a.detail                                                         AS detail,
       CAST((SELECT count(*) FROM admin_receipt AS r WHERE r.act = a.number) AS INTEGER) AS receipts,
       CAST(lower(hex(a.hash)) AS TEXT)                                 AS hash,
       CAST(a.receipts_digest IS NOT NULL AS INTEGER)                  AS is_blind
FROM admin_act AS a;

DROP VIEW admin_receipts;
CREATE VIEW admin_receipts AS
SELECT r.act                                                            AS act_number,
       a.act                                                            AS act,
       a.conversation                                                   AS conversation_id,
       r.part                                                           AS part,
       r.name                                                           AS name,
       r.sequence                                                       AS sequence,
       CAST(nullif(lower(hex(r.digest)), '') AS TEXT)                   AS sha256_before,
       CAST(nullif(lower(hex(r.new_digest)), '') AS TEXT)               AS sha256_after
FROM admin_receipt AS r
JOIN admin_act AS a ON a.number = r.act;

DROP VIEW events;
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
       CAST(strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', e.recorded_at % 1000000) AS TEXT)        AS recorded_at,
       CAST(lower(hex(e.hash)) AS TEXT)                                 AS hash,
       CAST(coalesce((SELECT a.bytes FROM archived_payload AS a WHERE a.position = e.position),
                length(CAST(e.payload AS BLOB))) AS INTEGER)            AS payload_bytes,
       e.payload                                                        AS payload,
       CAST(nullif(lower(hex(e.redacted_digest)), '') AS TEXT)          AS redacted_sha256,
       CAST(EXISTS (SELECT 1 FROM archived_payload AS a WHERE a.position = e.position) AS INTEGER) AS is_archived
FROM event AS e
JOIN conversation AS c ON c.key = e.conversation;

DROP VIEW transcript;
CREATE VIEW transcript AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.id                                                             AS event_id,
       e.timestamp                                                      AS timestamp,
       e.kind                                                           AS kind,
       t.role                                                           AS role,
       e.tool_name                                                      AS tool,
       CAST(CASE WHEN e.payload = '{"annals":"archived"}' THEN '' ELSE
           (SELECT coalesce(group_concat(part, char(10)), '')
            FROM (SELECT json_extract(CAST(substr(CAST(e.payload AS BLOB), start.value + 1, bytes.value) AS TEXT),
                                      '$') AS part
                  FROM json_each(t.parts) AS start
                  JOIN json_each(t.parts) AS bytes ON bytes.key = start.key + 1
                  WHERE start.key % 2 = 0
                  ORDER BY start.key)) END AS TEXT)                     AS text
FROM transcript_line AS t
JOIN event AS e ON e.position = t.position
JOIN conversation AS c ON c.key = e.conversation;

DROP VIEW repairs;
CREATE VIEW repairs AS
SELECT r.conversation_id                                                AS conversation_id,
       r.finding                                                        AS finding,
       r.found                                                          AS found,
       r.done                                                           AS done,
       r.event_ids                                                      AS event_ids,
       r.head_before                                                    AS head_before,
       r.head_after                                                     AS head_after,
       r.program                                                        AS program,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', r.repaired_at / 1000000, 'unixepoch')
           || printf('.%06dZ', r.repaired_at % 1000000) AS TEXT)        AS repaired_at
FROM repair AS r;

DROP VIEW imports;
CREATE VIEW imports AS
SELECT c.id                                                             AS conversation_id,
       o.source                                                         AS source,
       o.events                                                         AS events,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', o.imported_at / 1000000, 'unixepoch')
           || printf('.%06dZ', o.imported_at % 1000000) AS TEXT)        AS imported_at,
       CAST(coalesce(c.foreign_format, 'openhands') AS TEXT)            AS format
FROM origin AS o
JOIN conversation AS c ON c.key = o.conversation;

DROP VIEW changes;
CREATE VIEW changes AS
SELECT c.id                                                             AS conversation_id,
       x.number                                                         AS number,
       x.subject                                                        AS subject,
       x.name                                                           AS name,
       x.after_sequence                                                 AS after_sequence,
       x.actor                                                          AS actor,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', x.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', x.recorded_at % 1000000) AS TEXT)        AS recorded_at,
       CAST(nullif(lower(hex(x.digest)), '') AS TEXT)                   AS sha256,
       CAST(lower(hex(x.hash)) AS TEXT)                                 AS hash
FROM change AS x
JOIN conversation AS c ON c.key = x.conversation;

DROP VIEW base_state_changes;
CREATE VIEW base_state_changes AS
SELECT c.id                                                             AS conversation_id,
       b.version                                                        AS version,
       b.sequence                                                       AS after_sequence,
       b.field                                                          AS field,
       b.value                                                          AS value,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', b.recorded_at / 1000000, 'unixepoch')
           || printf('.%06dZ', b.recorded_at % 1000000) AS TEXT)        AS recorded_at,
       b.actor                                                          AS actor
FROM base_state_change AS b
JOIN conversation AS c ON c.key = b.conversation;

DROP VIEW commands;
CREATE VIEW commands AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       a.position                                                       AS position,
       a.id                                                             AS action_id,
       t.tool                                                           AS tool,
       CAST(coalesce(json_extract(a.payload, '$.action.command'),
                json_extract(a.payload, '$.args.command'),
                json_extract(a.payload, '$.raw_input.command'),
                json_extract(a.payload, '$.action.cmd')) AS TEXT)       AS command,
       CAST(coalesce(json_extract(a.payload, '$.action.is_input'), 0) AS INTEGER) AS is_input,
       CAST(coalesce(json_extract(r.payload, '$.observation.metadata.working_dir'),
                json_extract(r.payload, '$.extras.metadata.working_dir')) AS TEXT) AS directory,
       t.risk                                                           AS risk,
       t.outcome                                                        AS outcome,
       t.exit_code                                                      AS exit_code,
       a.timestamp                                                      AS started_at,
       r.timestamp                                                      AS ended_at,
       CAST(round((julianday(r.timestamp) - julianday(a.timestamp)) * 86400000) AS INTEGER) AS duration_ms,
       r.sequence                                                       AS result_sequence,
       CAST(t.position IN (SELECT b.position FROM active_branches AS b) AS INTEGER) AS is_live
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result
WHERE t.tool IN ('terminal', 'execute_bash', 'bash', 'shell', 'run', 'execute',
                 'Bash', 'PowerShell', 'shell_command', 'exec_command', 'local_shell', 'container.exec');

DROP VIEW attachments;
CREATE VIEW attachments AS
SELECT c.id                                                             AS conversation_id,
       a.path                                                           AS path,
       CAST(length(b.content) AS INTEGER)                               AS bytes,
       CAST(lower(hex(b.digest)) AS TEXT)                               AS sha256,
       a.reason                                                         AS reason,
       b.content                                                        AS content,
       b.key                                                            AS rowid
FROM attachment AS a
JOIN blob AS b ON b.key = a.blob
JOIN conversation AS c ON c.key = a.conversation;

DROP VIEW errors;
CREATE VIEW errors AS
SELECT c.id                                                             AS conversation_id,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.timestamp                                                      AS at,
       e.kind                                                           AS kind,
       CAST(coalesce(json_extract(e.payload, '$.classification.kind'),
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
                'unknown') AS TEXT)                                     AS class,
       CAST(json_extract(e.payload, '$.code') AS TEXT)                  AS code,
       e.tool_name                                                      AS tool,
       CAST(coalesce(json_extract(e.payload, '$.error'),
                json_extract(e.payload, '$.detail'),
                json_extract(e.payload, '$.content')) AS TEXT)          AS detail
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
       CAST('tool' AS TEXT),
       CAST(NULL AS TEXT),
       t.tool,
       CAST(coalesce(json_extract(r.payload, '$.observation.content[0].text'),
                json_extract(r.payload, '$.observation.output'),
                json_extract(r.payload, '$.observation.content'),
                json_extract(r.payload, '$.content')) AS TEXT)
FROM tool_call AS t
JOIN conversation AS c ON c.key = t.conversation
JOIN event AS r ON r.position = t.result
WHERE t.outcome = 'error'
  AND r.kind NOT IN ('AgentErrorEvent', 'agent_error', 'observation:error');

DROP VIEW subscriptions;
CREATE VIEW subscriptions AS
SELECT s.name                                                           AS name,
       s.position                                                       AS position,
       CAST(max(0, max(coalesce((SELECT max(position) FROM event), 0), (SELECT position_floor FROM log))
              - s.position) AS INTEGER)                                 AS behind,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', s.began_at / 1000000, 'unixepoch')
           || printf('.%06dZ', s.began_at % 1000000) AS TEXT)           AS began_at,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', s.acknowledged_at / 1000000, 'unixepoch')
           || printf('.%06dZ', s.acknowledged_at % 1000000) AS TEXT)    AS acknowledged_at
FROM subscription AS s;

DROP VIEW usage;
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
LEFT JOIN event AS e ON e.position = u.position;

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
       CAST(CASE why WHEN 1 THEN 'status' WHEN 2 THEN 'policy' ELSE 'refusal' END AS TEXT) AS evidence,
       asked_at,
       CAST(decision AS TEXT)                                           AS decision,
       CAST(decided_at AS TEXT)                                         AS decided_at,
       CAST(round((julianday(decided_at) - julianday(asked_at)) * 86400000) AS INTEGER) AS waited_ms,
       CAST(CASE decision WHEN 'denied' THEN json_extract(result, '$.rejection_reason') END AS TEXT) AS reason,
       result_sequence,
       CAST(CASE WHEN why = 1 AND decision IN ('granted', 'denied') THEN
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
            LIMIT 1) END AS TEXT)                                       AS decided_by
FROM decided;

DROP VIEW tool_calls;
CREATE VIEW tool_calls AS
SELECT c.id                                                             AS conversation_id,
       a.sequence                                                       AS sequence,
       t.position                                                       AS position,
       a.id                                                             AS action_id,
       t.tool                                                           AS tool,
       a.tool_call_id                                                   AS tool_call_id,
       a.llm_response_id                                                AS llm_response_id,
       CAST(coalesce(json_extract(a.payload, '$.action.command'),
                json_extract(a.payload, '$.args.command')) AS TEXT)     AS command,
       t.path                                                           AS path,
       CAST(coalesce(json_extract(a.payload, '$.action'),
                json_extract(a.payload, '$.args'),
                json_extract(a.payload, '$.tool_call.arguments')) AS TEXT) AS arguments,
       t.risk                                                           AS risk,
       t.outcome                                                        AS outcome,
       t.exit_code                                                      AS exit_code,
       CAST(CASE WHEN t.outcome = 'rejected'
            THEN coalesce(json_extract(r.payload, '$.rejection_source'), 'user') END AS TEXT) AS rejected_by,
       CAST(CASE WHEN t.outcome = 'rejected'
            THEN json_extract(r.payload, '$.rejection_reason') END AS TEXT) AS rejection_reason,
       CAST(CASE WHEN r.kind IN ('AgentErrorEvent', 'agent_error')
            THEN json_extract(r.payload, '$.error') END AS TEXT)        AS error,
       a.timestamp                                                      AS started_at,
       r.timestamp                                                      AS ended_at,
       CAST(round((julianday(r.timestamp) - julianday(a.timestamp)) * 86400000) AS INTEGER) AS duration_ms,
       r.id                                                             AS result_id,
       r.sequence                                                       AS result_sequence,
       CAST(t.position IN (SELECT b.position FROM active_branches AS b) AS INTEGER) AS is_live,
       t.network                                                        AS network
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result;

DROP VIEW conversations;
CREATE VIEW conversations AS
SELECT c.id                                                             AS conversation_id,
       CAST(coalesce(c.title, c.first_message) AS TEXT)                 AS title,
       c.status                                                         AS status,
       c.tags                                                           AS tags,
       c.event_count                                                    AS event_count,
       c.payload_bytes                                                  AS payload_bytes,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', c.created_at / 1000000, 'unixepoch')
           || printf('.%06dZ', c.created_at % 1000000) AS TEXT)         AS created_at,
       CAST(strftime('%Y-%m-%dT%H:%M:%S', c.updated_at / 1000000, 'unixepoch')
           || printf('.%06dZ', c.updated_at % 1000000) AS TEXT)         AS updated_at,
       c.first_timestamp                                                AS first_timestamp,
       c.last_timestamp                                                 AS last_timestamp,
       c.leaf_event_id                                                  AS leaf_event_id,
       c.head_is_empty                                                  AS head_is_empty,
       p.id                                                             AS parent_id,
       c.forked_from                                                    AS forked_from,
       c.forked_at                                                      AS forked_at,
       CAST(lower(hex(c.head_hash)) AS TEXT)                            AS head_hash,
       CAST((SELECT strftime('%Y-%m-%dT%H:%M:%S', a.archived_at / 1000000, 'unixepoch')
                   || printf('.%06dZ', a.archived_at % 1000000)
        FROM archived_conversation AS a WHERE a.conversation = c.key) AS TEXT) AS archived_at,
       CAST((SELECT CASE WHEN json_valid(CAST(b.content AS TEXT))
                    THEN json_extract(CAST(b.content AS TEXT), '$.user_id') END
        FROM attachment AS m
        JOIN blob AS b ON b.key = m.blob
        WHERE m.conversation = c.key AND m.path = 'meta.json') AS TEXT) AS user_id,
       f.workspace                                                      AS workspace,
       f.source                                                         AS source,
       f.model                                                          AS model,
       f.started_by                                                     AS started_by
FROM conversation AS c
LEFT JOIN conversation AS p ON p.key = c.parent
LEFT JOIN conversation_fact AS f ON f.conversation = c.key;

DROP VIEW outcomes;
CREATE VIEW outcomes AS
WITH said (conversation_id, position, reply, is_final) AS NOT MATERIALIZED (
    SELECT b.conversation_id,
           s.position,
           CASE WHEN s.kind IN ('ActionEvent', 'action', 'MessageEvent', 'message', 'agent_message')
                THEN coalesce(s.llm_response_id, '')
                WHEN s.kind IN ('action:message', 'action:finish') THEN ''
                ELSE coalesce(json_extract(s.payload, '$.tool_call_metadata.model_response.id'), '') END,
           s.source = 'agent'
               AND (s.kind IN ('MessageEvent', 'message', 'agent_message', 'action:message', 'action:finish')
                    OR s.kind IN ('ActionEvent', 'action') AND s.tool_name = 'finish')
    FROM active_branches AS b
    CROSS JOIN event AS s ON s.position = b.position
    WHERE CASE WHEN s.kind IN ('ActionEvent', 'action') THEN 1
               WHEN s.kind IN ('MessageEvent', 'message', 'agent_message', 'action:message') THEN s.source = 'agent'
               WHEN s.source IS NOT 'agent' OR s.kind NOT GLOB 'action:*'
                    OR s.kind IN ('action:system', 'action:condensation') THEN 0
               WHEN s.kind = 'action:finish'
               THEN coalesce(json_extract(s.payload, '$.args.thought'), '')
                    || coalesce(json_extract(s.payload, '$.tool_call_metadata.model_response.choices[0].message.content'), '')
                    || coalesce(json_extract(s.payload, '$.args.final_thought'), '') <> ''
               ELSE json_type(s.payload, '$.tool_call_metadata.function_name') = 'text'
                    AND EXISTS (SELECT 1
                                FROM json_each(s.payload,
                                               '$.tool_call_metadata.model_response.choices[0].message.tool_calls') AS call
                                WHERE json_extract(call.value, '$.id')
                                          = json_extract(s.payload, '$.tool_call_metadata.tool_call_id')
                                  AND json_type(call.value, '$.function.arguments') = 'text') END
)
SELECT f.conversation_id                                                AS conversation_id,
       f.status                                                         AS status,
       CAST(f.steps AS INTEGER)                                         AS steps,
       CAST(CASE WHEN e.kind = 'action:message' THEN coalesce(json_extract(e.payload, '$.args.content'), '')
            WHEN e.kind = 'action:finish'
            THEN coalesce(nullif(json_extract(e.payload, '$.args.thought'), ''),
                          json_extract(e.payload, '$.tool_call_metadata.model_response.choices[0].message.content'), '')
                 || coalesce(json_extract(e.payload, '$.args.final_thought'), '')
            WHEN e.tool_name = 'finish' THEN coalesce(json_extract(e.payload, '$.action.message'), '')
            WHEN e.position IS NOT NULL
            THEN (SELECT coalesce(group_concat(json_extract(part.value, '$.text'), ''), '')
                  FROM json_each(e.payload, '$.llm_message.content') AS part) END AS TEXT) AS final_response,
       e.sequence                                                       AS final_sequence
FROM (SELECT c.conversation_id,
             c.status,
             (SELECT count(DISTINCT nullif(a.reply, '')) + count(CASE WHEN a.reply = '' THEN 1 END)
              FROM said AS a
              WHERE a.conversation_id = c.conversation_id) AS steps,
             (SELECT max(a.position)
              FROM said AS a
              WHERE a.conversation_id = c.conversation_id AND a.is_final) AS final_position
      FROM conversations AS c) AS f
LEFT JOIN event AS e ON e.position = f.final_position;
