SELECT substr(timestamp, 1, 10) AS day, count(DISTINCT conversation_id) AS conversations, count(*) AS events,
       count(*) FILTER (WHERE kind IN ('ActionEvent', 'action')) AS actions,
       count(*) FILTER (WHERE kind IN ('MessageEvent', 'message', 'user_message') AND source = 'user') AS user_messages
FROM events
WHERE timestamp IS NOT NULL
  AND conversation_id = :conversation
  AND timestamp >= :since
  AND timestamp < :until
GROUP BY day
ORDER BY day
