WITH found AS MATERIALIZED (
    SELECT s.conversation_id, s.name, k.position, k.started_at,
           (SELECT instr(e.payload, '<secret-hidden>') > 0 FROM events AS e
            WHERE e.conversation_id = k.conversation_id AND e.sequence = k.result_sequence) AS was_hidden
    FROM secrets AS s
    JOIN commands AS k
      ON k.conversation_id = s.conversation_id AND instr(lower(k.command), lower(s.name)) > 0
    WHERE true
      AND s.conversation_id = :conversation
      AND s.name = :name
)
SELECT s.conversation_id, s.name, s.kind, s.description,
       count(k.position) AS uses, min(k.started_at) AS first_at, max(k.started_at) AS last_at,
       coalesce(sum(k.was_hidden), 0) AS hidden
FROM secrets AS s
LEFT JOIN found AS k ON k.conversation_id = s.conversation_id AND k.name = s.name
WHERE true
  AND s.conversation_id = :conversation
  AND s.name = :name
GROUP BY s.conversation_id, s.name
ORDER BY s.name, s.conversation_id
