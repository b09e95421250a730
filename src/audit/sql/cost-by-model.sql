SELECT model, count(DISTINCT conversation_id) AS conversations, count(response_id) AS calls,
       sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens,
       sum(reasoning_tokens) AS reasoning_tokens, round(sum(cost), 6) AS cost,
       round(avg(latency_seconds) * 1000) AS latency_ms
FROM usage
WHERE true
  AND conversation_id = :conversation
  AND at >= :since
  AND at < :until
GROUP BY model
ORDER BY sum(cost) DESC, model
