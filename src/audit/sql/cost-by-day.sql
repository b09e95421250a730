SELECT coalesce(substr(at, 1, 10), 'unknown') AS day, count(DISTINCT conversation_id) AS conversations,
       sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, round(sum(cost), 6) AS cost,
       round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost
FROM usage
WHERE true
  AND conversation_id = :conversation
  AND model = :model
  AND at >= :since
  AND at < :until
GROUP BY day
ORDER BY day
