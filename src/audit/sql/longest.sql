SELECT c.conversation_id, c.title, c.status, c.event_count AS events,
       round((julianday(c.updated_at) - julianday(c.created_at)) * 24, 2) AS hours, c.payload_bytes,
       u.prompt_tokens, u.completion_tokens, u.cost, u.estimated_cost, u.tokens_without_cost
FROM conversations AS c
LEFT JOIN (SELECT conversation_id, sum(prompt_tokens) AS prompt_tokens,
                  sum(completion_tokens) AS completion_tokens, round(sum(cost), 6) AS cost,
                  round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost
           FROM usage GROUP BY conversation_id) AS u ON u.conversation_id = c.conversation_id
WHERE true
  AND c.created_at >= :since
  AND c.created_at < :until
ORDER BY c.event_count DESC, c.conversation_id
LIMIT :limit
