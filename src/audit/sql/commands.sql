SELECT started_at, conversation_id, sequence, command, exit_code, outcome, duration_ms, directory, risk
FROM commands
WHERE true
  AND conversation_id = :conversation
  AND conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
  AND started_at >= :since
  AND started_at < :until
  AND command LIKE '%' || :text || '%'
  AND (directory GLOB :path OR command GLOB '*' || :path || '*')
  AND (exit_code NOT IN (0, -1) OR outcome <> 'ok') = :failed
ORDER BY position
