SELECT k.asked_at, k.conversation_id, k.sequence, k.tool,
       coalesce(t.command, t.path, substr(t.arguments, 1, 200)) AS what,
       k.risk, k.decision, k.decided_at, k.waited_ms, k.reason, k.evidence, k.decided_by
FROM confirmations AS k
JOIN tool_calls AS t ON t.position = k.position
WHERE true
  AND k.conversation_id = :conversation
  AND k.asked_at >= :since
  AND k.asked_at < :until
  AND k.decision = :decision
ORDER BY k.asked_at, k.position
