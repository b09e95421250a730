WITH change AS MATERIALIZED (
    -- In the order of the log, conversation by conversation: nothing has to be sorted or kept.
    SELECT c.conversation_id, c.title,
           (SELECT json_array(count(*), min(e.recorded_at), max(e.recorded_at), min(e.sequence), max(e.sequence))
            FROM events AS e
            WHERE e.conversation_id = c.conversation_id
              AND e.recorded_at >= :since
              AND e.recorded_at < :until
           ) AS event,
           (SELECT json_array(count(*), min(b.recorded_at), max(b.recorded_at))
            FROM base_state_changes AS b
            WHERE b.conversation_id = c.conversation_id
              AND b.recorded_at >= :since
              AND b.recorded_at < :until
           ) AS state,
           (SELECT json_array(count(*), min(h.recorded_at), max(h.recorded_at))
            FROM head_moves AS h
            WHERE h.conversation_id = c.conversation_id
              AND h.recorded_at >= :since
              AND h.recorded_at < :until
           ) AS head,
           (SELECT json_array(count(*), min(i.imported_at), max(i.imported_at))
            FROM imports AS i
            WHERE i.conversation_id = c.conversation_id
              AND i.imported_at >= :since
              AND i.imported_at < :until
           ) AS import,
           (SELECT json_array(count(*), min(p.found_at), max(p.found_at))
            FROM problems AS p
            WHERE p.conversation_id = c.conversation_id
              AND p.found_at >= :since
              AND p.found_at < :until
           ) AS problem
    FROM conversations AS c
)
SELECT d.conversation_id, d.title, d.event ->> 0 AS events, d.event ->> 3 AS first_sequence,
       d.event ->> 4 AS last_sequence, coalesce(d.event ->> 3 = 0, 0) AS is_new,
       d.state ->> 0 AS state_fields, d.head ->> 0 AS head_moves, d.import ->> 0 AS imports,
       d.problem ->> 0 AS problems,
       (SELECT min(at.value)
        FROM json_each(json_array(d.event ->> 1, d.state ->> 1, d.head ->> 1, d.import ->> 1, d.problem ->> 1)) AS at)
           AS first_at,
       (SELECT max(at.value)
        FROM json_each(json_array(d.event ->> 2, d.state ->> 2, d.head ->> 2, d.import ->> 2, d.problem ->> 2)) AS at)
           AS last_at
FROM change AS d
WHERE (d.event ->> 0) + (d.state ->> 0) + (d.head ->> 0) + (d.import ->> 0) + (d.problem ->> 0) > 0
ORDER BY first_at, d.conversation_id
