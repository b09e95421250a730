WITH call AS (
  SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, cache_read_tokens,
         cache_write_tokens, cost, estimated_cost, tokens_without_cost, NULL AS counted_in
  FROM usage
  UNION ALL
  SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, NULL, NULL, 0.0, NULL, NULL,
         owner_id
  FROM usage_copies
)
SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, cache_read_tokens,
       cache_write_tokens, round(cost, 6) AS cost, round(estimated_cost, 6) AS estimated_cost,
       CASE WHEN counted_in IS NOT NULL THEN 'copy'
            WHEN cost IS NOT NULL THEN 'log'
            WHEN estimated_cost IS NOT NULL THEN 'table'
            WHEN tokens_without_cost > 0 THEN 'unknown'
            ELSE 'sum' END AS price,
       counted_in
FROM call
WHERE true
  AND conversation_id = :conversation
  AND model = :model
  AND at >= :since
  AND at < :until
ORDER BY conversation_id, sequence IS NULL, sequence, at, usage_id
LIMIT :limit
