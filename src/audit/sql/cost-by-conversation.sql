WITH RECURSIVE
own AS MATERIALIZED (
  SELECT u.conversation_id, group_concat(DISTINCT u.model) AS models,
         sum(u.prompt_tokens) AS prompt_tokens, sum(u.completion_tokens) AS completion_tokens,
         sum(u.cache_read_tokens) AS cache_read_tokens, sum(u.cost) AS cost,
         sum(u.estimated_cost) AS estimated_cost, sum(u.tokens_without_cost) AS tokens_without_cost
  FROM usage AS u
  WHERE true
    AND u.model = :model
    AND u.at >= :since
    AND u.at < :until
  GROUP BY u.conversation_id
),
child AS MATERIALIZED (
  SELECT conversation_id, parent_id FROM conversations WHERE parent_id IS NOT NULL
),
below (top, conversation_id) AS (
  SELECT parent_id, conversation_id FROM child
  UNION
  SELECT b.top, c.conversation_id FROM below AS b JOIN child AS c ON c.parent_id = b.conversation_id
),
sub_agents AS MATERIALIZED (
  SELECT b.top, sum(o.cost) AS cost, sum(o.estimated_cost) AS estimated_cost
  FROM below AS b JOIN own AS o ON o.conversation_id = b.conversation_id
  WHERE b.conversation_id <> b.top
  GROUP BY b.top
)
SELECT o.conversation_id, c.title, o.models, o.prompt_tokens, o.completion_tokens, o.cache_read_tokens,
       round(o.cost, 6) AS cost, round(o.estimated_cost, 6) AS estimated_cost, o.tokens_without_cost,
       CASE WHEN s.top IS NOT NULL THEN round(coalesce(o.cost + s.cost, o.cost, s.cost), 6) END AS cost_with_sub_agents,
       CASE WHEN s.top IS NOT NULL
            THEN round(coalesce(o.estimated_cost + s.estimated_cost, o.estimated_cost, s.estimated_cost), 6)
            END AS estimated_with_sub_agents
FROM own AS o
JOIN conversations AS c ON c.conversation_id = o.conversation_id
LEFT JOIN sub_agents AS s ON s.top = o.conversation_id
WHERE true
  AND o.conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
ORDER BY coalesce(o.cost, 0) + coalesce(o.estimated_cost, 0) DESC, o.conversation_id
LIMIT :limit
