SELECT c.started_at, c.conversation_id, c.sequence, c.command, c.exit_code, c.outcome, c.duration_ms, c.directory, c.risk
FROM (
    SELECT position FROM commands
    WHERE true
      AND conversation_id = :conversation
      AND conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
      AND started_at >= :since
      AND started_at < :until
      AND command LIKE '%' || :text || '%'
      AND (directory GLOB :path OR command GLOB '*' || :path || '*')
      AND (exit_code NOT IN (0, -1) OR outcome <> 'ok') = :failed
    ORDER BY started_at, position LIMIT -1
) AS found
CROSS JOIN commands AS c ON c.position = found.position
