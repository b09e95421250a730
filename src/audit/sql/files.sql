WITH patch AS (
    -- A patch may name several files, each in a line of its own.
    SELECT position, CASE WHEN json_valid(arguments)
               THEN (SELECT group_concat(a.value, char(10)) FROM json_tree(arguments) AS a WHERE a.type = 'text')
               ELSE arguments END AS text
    FROM tool_calls
    WHERE path IS NOT NULL AND tool IN ('apply_patch', 'bash', 'shell', 'shell_command', 'exec_command', 'local_shell', 'container.exec')
),
named AS (
    -- The lines of the text, as a JSON array. While it is one, another character stands for the backslash.
    SELECT DISTINCT p.position, trim(replace(substr(l.value, instr(l.value, ': ') + 2), char(57344), '\'), ' ' || char(13)) AS path
    FROM patch AS p
    CROSS JOIN json_each('[' || replace(json_quote(replace(p.text, '\', char(57344))), '\n', '","') || ']') AS l
    WHERE l.value GLOB '[*][*][*] Add File: *' OR l.value GLOB '[*][*][*] Update File: *'
       OR l.value GLOB '[*][*][*] Delete File: *' OR l.value GLOB '[*][*][*] Move to: *'
),
touched AS (
    SELECT conversation_id, path, coalesce(command, tool) AS act, outcome, started_at, position
    FROM tool_calls
    WHERE path IS NOT NULL AND position NOT IN (SELECT position FROM named)
    UNION ALL
    SELECT c.conversation_id, n.path, 'apply_patch', c.outcome, c.started_at, c.position
    FROM named AS n CROSS JOIN tool_calls AS c ON c.position = n.position
)
SELECT t.path, t.conversation_id, c.title,
       count(*) FILTER (WHERE t.act
           IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch', 'Write', 'Edit', 'MultiEdit', 'NotebookEdit')
           AND t.outcome = 'ok') AS writes,
       count(*) FILTER (WHERE t.act
           NOT IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch', 'Write', 'Edit', 'MultiEdit', 'NotebookEdit')
           AND t.outcome = 'ok') AS reads,
       count(*) FILTER (WHERE t.outcome <> 'ok') AS failed,
       min(t.started_at) AS first_at, max(t.started_at) AS last_at,
       (SELECT group_concat(DISTINCT u.model) FROM usage AS u WHERE u.conversation_id = t.conversation_id) AS models
FROM touched AS t
JOIN conversations AS c ON c.conversation_id = t.conversation_id
WHERE true
  AND t.conversation_id = :conversation
  AND t.conversation_id IN (SELECT w.conversation_id FROM conversations AS w WHERE w.workspace = rtrim(:workspace, '/') OR w.workspace >= rtrim(:workspace, '/') || '/' AND w.workspace < rtrim(:workspace, '/') || '0')
  AND t.started_at >= :since
  AND t.started_at < :until
  AND t.path GLOB :path
GROUP BY t.path, t.conversation_id
ORDER BY t.path, first_at, min(t.position)
