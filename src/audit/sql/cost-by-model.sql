SELECT model, count(DISTINCT conversation_id) AS conversations,
       count(DISTINCT conversation_id || ' ' || response_id) AS calls,
       sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens,
       sum(reasoning_tokens) AS reasoning_tokens, round(sum(cost), 6) AS cost,
       round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost,
       round(avg(latency_seconds) * 1000) AS latency_ms
FROM usage
WHERE true
  AND conversation_id = :conversation
  AND at >= :since
  AND at < :until
GROUP BY model
ORDER BY coalesce(sum(cost), 0) + coalesce(sum(estimated_cost), 0) DESC, model
