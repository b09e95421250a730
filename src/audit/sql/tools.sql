SELECT tool, count(*) AS calls, count(DISTINCT conversation_id) AS conversations,
       count(*) FILTER (WHERE outcome = 'ok') AS ok, count(*) FILTER (WHERE outcome = 'error') AS errors,
       count(*) FILTER (WHERE outcome = 'failed') AS failed, count(*) FILTER (WHERE outcome = 'rejected') AS rejected,
       count(*) FILTER (WHERE outcome = 'pending') AS pending
FROM tool_calls
WHERE true
  AND conversation_id = :conversation
  AND started_at >= :since
  AND started_at < :until
GROUP BY tool
ORDER BY calls DESC, tool
