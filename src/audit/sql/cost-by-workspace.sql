SELECT c.workspace, count(DISTINCT u.conversation_id) AS conversations,
       sum(u.prompt_tokens) AS prompt_tokens, sum(u.completion_tokens) AS completion_tokens,
       sum(u.cache_read_tokens) AS cache_read_tokens, round(sum(u.cost), 6) AS cost,
       round(sum(u.estimated_cost), 6) AS estimated_cost, sum(u.tokens_without_cost) AS tokens_without_cost
FROM usage AS u
JOIN conversations AS c ON c.conversation_id = u.conversation_id
WHERE true
  AND u.model = :model
  AND u.at >= :since
  AND u.at < :until
GROUP BY c.workspace
ORDER BY coalesce(sum(u.cost), 0) + coalesce(sum(u.estimated_cost), 0) DESC, c.workspace
