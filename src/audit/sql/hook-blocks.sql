SELECT h.at, h.conversation_id, h.sequence, h.hook_event, h.hook_command, h.tool,
       (SELECT coalesce(t.command, t.path, substr(t.arguments, 1, 200)) FROM tool_calls AS t
        WHERE t.conversation_id = h.conversation_id AND t.action_id = h.action_id) AS what,
       h.reason
FROM hooks AS h
WHERE h.blocked = 1
  AND h.conversation_id = :conversation
  AND h.at >= :since
  AND h.at < :until
ORDER BY h.at, h.position
