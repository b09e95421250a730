-- More of the read contract: the log as a tree. Nothing newer than SQLite 3.38 may stand here, for the
-- reason V5 gives.
--
-- A way from a leaf to its root is walked within one scalar subquery, which answers it as a JSON array: a
-- recursive table of its own would be walked for every conversation of the file before a WHERE is asked.
-- CROSS JOIN keeps the order of the tables, in which each step is a few look-ups; UNION ends a circle. What
-- is read is the other views: of a table that a subquery reads, the guard of queries is not told by which view.

CREATE VIEW branches AS
SELECT leaf.conversation_id                                             AS conversation_id,
       leaf.event_id                                                    AS leaf_event_id,
       step.key                                                         AS steps_to_leaf,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.event_id                                                       AS event_id,
       e.kind                                                           AS kind
FROM events AS leaf
CROSS JOIN json_each((
    WITH RECURSIVE way (sequence) AS (
        SELECT leaf.sequence
        UNION
        SELECT CASE WHEN f.parent_id IS NULL THEN f.sequence - 1
                    WHEN f.parent_id <> '__root__'
                    THEN (SELECT p.sequence FROM events AS p
                          WHERE p.conversation_id = f.conversation_id AND p.event_id = f.parent_id) END
        FROM way JOIN events AS f ON f.conversation_id = leaf.conversation_id AND f.sequence = way.sequence
    )
    SELECT json_group_array(sequence) FROM way
)) AS step
CROSS JOIN events AS e ON e.conversation_id = leaf.conversation_id AND e.sequence = step.value;

CREATE VIEW active_branches AS
SELECT c.conversation_id                                                AS conversation_id,
       step.key                                                         AS steps_to_leaf,
       e.sequence                                                       AS sequence,
       e.position                                                       AS position,
       e.event_id                                                       AS event_id,
       e.kind                                                           AS kind
FROM conversations AS c
CROSS JOIN json_each((
    WITH RECURSIVE way (sequence) AS (
        SELECT CASE WHEN c.leaf_event_id IS NOT NULL
                    THEN (SELECT leaf.sequence FROM events AS leaf
                          WHERE leaf.conversation_id = c.conversation_id AND leaf.event_id = c.leaf_event_id)
                    WHEN NOT c.head_is_empty
                    THEN (SELECT last.sequence FROM events AS last
                          WHERE last.conversation_id = c.conversation_id
                            AND last.kind NOT IN ('ConversationStateUpdateEvent', 'conversation_state_update',
                                                  'state_update', 'ConversationErrorEvent', 'conversation_error')
                          ORDER BY last.sequence DESC LIMIT 1) END
        UNION
        SELECT CASE WHEN f.parent_id IS NULL THEN f.sequence - 1
                    WHEN f.parent_id <> '__root__'
                    THEN (SELECT p.sequence FROM events AS p
                          WHERE p.conversation_id = f.conversation_id AND p.event_id = f.parent_id) END
        FROM way JOIN events AS f ON f.conversation_id = c.conversation_id AND f.sequence = way.sequence
    )
    SELECT json_group_array(sequence) FROM way
)) AS step
CROSS JOIN events AS e ON e.conversation_id = c.conversation_id AND e.sequence = step.value;
