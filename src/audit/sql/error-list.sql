SELECT at, conversation_id, sequence, class, code, tool, detail
FROM errors
WHERE true
  AND conversation_id = :conversation
  AND at >= :since
  AND at < :until
  AND class = :class
ORDER BY at, position
