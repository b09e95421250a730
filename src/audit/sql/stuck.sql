SELECT c.conversation_id, c.title, c.status,
       CASE WHEN c.status = 'stuck' THEN 'it went in circles'
            WHEN c.status = 'error' THEN 'its run failed'
            WHEN c.status = 'running' THEN 'it still runs, or its process died'
            ELSE 'calls were never answered' END AS why,
       c.last_timestamp AS last_at, coalesce(p.pending, 0) AS pending, e.class, e.code,
       substr(e.detail, 1, 200) AS last_error
FROM conversations AS c
LEFT JOIN (SELECT conversation_id, count(*) AS pending FROM tool_calls WHERE outcome = 'pending'
           GROUP BY conversation_id) AS p ON p.conversation_id = c.conversation_id
LEFT JOIN (SELECT conversation_id, class, code, detail, max(position) FROM errors
           GROUP BY conversation_id) AS e ON e.conversation_id = c.conversation_id
WHERE (c.status IN ('stuck', 'error', 'running')
       OR p.pending > 0 AND c.status NOT IN ('waiting_for_confirmation', 'paused'))
  AND c.last_timestamp >= :since
  AND c.last_timestamp < :until
ORDER BY c.last_timestamp DESC, c.conversation_id
