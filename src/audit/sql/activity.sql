SELECT coalesce(substr(timestamp, 1, 10), 'unknown') AS day, count(DISTINCT conversation_id) AS conversations, count(*) AS events,
       count(*) FILTER (WHERE kind IN ('ActionEvent', 'action') OR kind GLOB 'action:*' AND source = 'agent'
           AND kind NOT IN ('action:message', 'action:system', 'action:condensation', 'action:condensation_request')) AS actions,
       count(*) FILTER (WHERE kind IN ('MessageEvent', 'message', 'user_message', 'action:message')
           AND source = 'user') AS user_messages
FROM events
WHERE true
  AND conversation_id = :conversation
  AND timestamp >= :since
  AND timestamp < :until
GROUP BY day
ORDER BY day
