SELECT t.path, t.conversation_id, c.title,
       count(*) FILTER (WHERE coalesce(t.command, t.tool)
           IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch')
           AND t.outcome = 'ok') AS writes,
       count(*) FILTER (WHERE coalesce(t.command, t.tool)
           NOT IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch')
           AND t.outcome = 'ok') AS reads,
       count(*) FILTER (WHERE t.outcome <> 'ok') AS failed,
       min(t.started_at) AS first_at, max(t.started_at) AS last_at,
       (SELECT group_concat(DISTINCT u.model) FROM usage AS u WHERE u.conversation_id = t.conversation_id) AS models
FROM tool_calls AS t
JOIN conversations AS c ON c.conversation_id = t.conversation_id
WHERE t.path IS NOT NULL
  AND t.conversation_id = :conversation
  AND t.conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
  AND t.started_at >= :since
  AND t.started_at < :until
  AND t.path GLOB :path
GROUP BY t.path, t.conversation_id
ORDER BY t.path, first_at, min(t.position)
