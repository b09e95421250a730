-- Conversations that are read-only copies of another program's log. Nothing newer than SQLite 3.38 may stand
-- here, for the reason V5 gives.

ALTER TABLE conversation ADD COLUMN foreign_format TEXT; -- of that log: claude-code, codex, langgraph, openai-agents; NULL: it is none

-- Other agents' names for running a command, and the word that Codex has for the command.
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
       r.sequence                                                       AS result_sequence
FROM tool_call AS t
JOIN event AS a ON a.position = t.position
JOIN conversation AS c ON c.key = a.conversation
LEFT JOIN event AS r ON r.position = t.result
WHERE t.tool IN ('terminal', 'execute_bash', 'bash', 'shell', 'run', 'execute',
                 'Bash', 'PowerShell', 'shell_command', 'exec_command', 'local_shell', 'container.exec');

DROP VIEW imports;
CREATE VIEW imports AS
SELECT c.id                                                             AS conversation_id,
       o.source                                                         AS source,
       o.events                                                         AS events,
       strftime('%Y-%m-%dT%H:%M:%S', o.imported_at / 1000000, 'unixepoch')
           || printf('.%06dZ', o.imported_at % 1000000)                 AS imported_at,
       coalesce(c.foreign_format, 'openhands')                          AS format
FROM origin AS o
JOIN conversation AS c ON c.key = o.conversation;
