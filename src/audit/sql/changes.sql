WITH change (conversation_id, recorded_at, sequence, event, state, head, import, problem) AS (
    SELECT conversation_id, recorded_at, sequence, 1, 0, 0, 0, 0 FROM events
    WHERE recorded_at >= :since
      AND recorded_at < :until
    UNION ALL
    SELECT conversation_id, recorded_at, NULL, 0, 1, 0, 0, 0 FROM base_state_changes
    WHERE recorded_at >= :since
      AND recorded_at < :until
    UNION ALL
    SELECT conversation_id, recorded_at, NULL, 0, 0, 1, 0, 0 FROM head_moves
    WHERE recorded_at >= :since
      AND recorded_at < :until
    UNION ALL
    SELECT conversation_id, imported_at, NULL, 0, 0, 0, 1, 0 FROM imports
    WHERE imported_at >= :since
      AND imported_at < :until
    UNION ALL
    SELECT conversation_id, found_at, NULL, 0, 0, 0, 0, 1 FROM problems
    WHERE found_at >= :since
      AND found_at < :until
)
SELECT d.conversation_id, c.title, sum(d.event) AS events, min(d.sequence) AS first_sequence,
       max(d.sequence) AS last_sequence, coalesce(min(d.sequence) = 0, 0) AS is_new,
       sum(d.state) AS state_fields, sum(d.head) AS head_moves, sum(d.import) AS imports,
       sum(d.problem) AS problems, min(d.recorded_at) AS first_at, max(d.recorded_at) AS last_at
FROM change AS d
JOIN conversations AS c ON c.conversation_id = d.conversation_id
GROUP BY d.conversation_id
ORDER BY first_at, d.conversation_id
