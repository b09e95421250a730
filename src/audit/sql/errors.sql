SELECT class, code, tool, count(*) AS errors, count(DISTINCT conversation_id) AS conversations,
       min(at) AS first_at, max(at) AS last_at,
       substr(max(printf('%020d', position) || coalesce(detail, '')), 21, 200) AS latest
FROM errors
WHERE true
  AND conversation_id = :conversation
  AND at >= :since
  AND at < :until
GROUP BY class, code, tool
ORDER BY errors DESC, class, code, tool
