SELECT s.conversation_id, s.name, s.kind, s.description,
       count(k.position) AS uses, min(k.started_at) AS first_at, max(k.started_at) AS last_at,
       count(*) FILTER (WHERE instr(e.payload, '<secret-hidden>') > 0) AS hidden
FROM secrets AS s
LEFT JOIN commands AS k
       ON k.conversation_id = s.conversation_id AND instr(lower(k.command), lower(s.name)) > 0
LEFT JOIN events AS e ON e.conversation_id = k.conversation_id AND e.sequence = k.result_sequence
WHERE true
  AND s.conversation_id = :conversation
  AND s.name = :name
GROUP BY s.conversation_id, s.name
ORDER BY s.name, s.conversation_id
