SELECT duration_ms, started_at, conversation_id, sequence, tool,
       coalesce(command, path, substr(arguments, 1, 200)) AS what, outcome, exit_code
FROM tool_calls
WHERE duration_ms IS NOT NULL
  AND conversation_id = :conversation
  AND tool = :tool
  AND started_at >= :since
  AND started_at < :until
ORDER BY duration_ms DESC, position
LIMIT :limit
