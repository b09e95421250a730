SELECT t.started_at, t.conversation_id, t.sequence, t.network AS programs,
       coalesce((SELECT k.command FROM commands AS k WHERE k.position = t.position),
                CASE WHEN json_valid(t.arguments) THEN json_extract(t.arguments, '$.url') END) AS what,
       t.exit_code, t.outcome, t.duration_ms
FROM tool_calls AS t
WHERE t.network IS NOT NULL
  AND t.conversation_id = :conversation
  AND t.conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
  AND t.started_at >= :since
  AND t.started_at < :until
ORDER BY 1, 2, 3
